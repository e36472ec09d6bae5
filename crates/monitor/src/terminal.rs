//! Takes over the terminal and restores it, on drop and before a panic message.

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

/// The terminal in full-screen mode. ratatui's `Terminal` is never dropped: if the terminal is gone, its drop would
/// print to a closed stderr and panic. This type restores everything itself.
pub(crate) struct FullScreen(pub(crate) ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>);

impl FullScreen {
    pub(crate) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let default_hook = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                leave();
                default_hook(info);
            }));
        });
        take()?;
        // From here on, failures restore the terminal.
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

    /// Restores the terminal and suspends this process, like Ctrl-Z. Returns when it is continued.
    pub(crate) fn suspend(&mut self) -> io::Result<()> {
        leave();
        kill_process(getpid(), Signal::TSTP)?;
        self.resume()
    }

    /// Takes over the terminal again and redraws everything, because other programs may have used it.
    pub(crate) fn resume(&mut self) -> io::Result<()> {
        // crossterm does not enter raw mode twice, so leave it first.
        let _ = disable_raw_mode();
        take()?;
        // Not `clear`, which queries the cursor position: the thread that reads keys would get the answer.
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

/// Restores the terminal. Errors are ignored: a closed terminal cannot be restored.
fn leave() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}
