//! The terminal while the whole of it is ours. However it ends, it is given back as it was: when this is dropped, and
//! before a panic is told.

use std::io::{self, Stdout};
use std::mem::ManuallyDrop;
use std::panic;
use std::sync::Once;

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use rustix::process::{Signal, getpid, kill_process};

/// The whole terminal. ratatui's own is never dropped: it would tell a terminal that is gone so on stderr, which is gone
/// with it, and panic; what it would give back is given back here.
pub(crate) struct FullScreen(pub(crate) ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>);

impl FullScreen {
    pub(crate) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                leave();
                usual(info);
            }));
        });
        take()?;
        // From here on a failure gives the terminal back, too.
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Self(ManuallyDrop::new(terminal))),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// The width of the terminal in characters.
    pub(crate) fn width(&self) -> u16 {
        self.0.size().map_or(80, |size| size.width)
    }

    /// Gives the terminal back and stops this process, as Ctrl-Z does; comes back when it is continued.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        leave();
        kill_process(getpid(), Signal::TSTP)?;
        self.resume()
    }

    /// Takes the terminal again and draws everything anew: who stopped us may have given it to others.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        // Raw mode is taken for granted once it was entered, so it is left first.
        let _ = disable_raw_mode();
        take()?;
        // Not `clear`, which asks the terminal where the cursor is: the answer would go to who reads the keys.
        let size = self.0.size()?;
        self.0.resize(Rect::new(0, 0, size.width, size.height))
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        leave();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)
}

/// A terminal that is gone cannot be given back.
fn leave() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
