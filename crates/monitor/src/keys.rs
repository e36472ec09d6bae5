//! Maps keys to actions.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    /// Closes an overlay or the single-device view; never quits.
    Back,
    Pause,
    SortNext,
    Reverse,
    Record,
    Processes,
    Longer,
    Shorter,
    NextFocus,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Detail,
    ResetEnergy,
    Help,
    Events,
    Suspend,
}

/// All keys and what they do, as shown in the help.
pub(crate) const HELP: [(&str, &str); 15] = [
    ("q  Ctrl-C", "quit and print the totals with their intervals"),
    ("Esc", "close this panel or the single device"),
    ("space", "pause the display; sampling continues"),
    ("+ -  left right", "time range of the graphs"),
    ("up down  PgUp PgDn", "select a device, scroll processes"),
    ("Tab", "switch between devices and processes"),
    ("d  Enter", "show only this device, or all"),
    ("p", "show or hide processes"),
    ("s", "sort processes by the next column"),
    ("S", "reverse the sort order"),
    ("r", "start or stop recording to a file"),
    ("c", "reset the energy to zero"),
    ("e", "sensor events"),
    ("Ctrl-Z", "suspend; `fg` resumes"),
    ("?  h", "this help"),
];

pub(crate) fn action(key: KeyEvent) -> Option<Action> {
    // Some terminals also report key releases.
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c' | 'd') => Some(Action::Quit),
            KeyCode::Char('z') => Some(Action::Suspend),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char('q' | 'Q') => Action::Quit,
        KeyCode::Esc => Action::Back,
        KeyCode::Char(' ') => Action::Pause,
        KeyCode::Char('s') => Action::SortNext,
        KeyCode::Char('S') => Action::Reverse,
        KeyCode::Char('r' | 'R') => Action::Record,
        KeyCode::Char('p') => Action::Processes,
        KeyCode::Char('+' | '=') | KeyCode::Left => Action::Longer,
        KeyCode::Char('-' | '_') | KeyCode::Right => Action::Shorter,
        KeyCode::Tab | KeyCode::BackTab => Action::NextFocus,
        KeyCode::Up | KeyCode::Char('k') => Action::Up,
        KeyCode::Down | KeyCode::Char('j') => Action::Down,
        KeyCode::PageUp => Action::PageUp,
        KeyCode::PageDown => Action::PageDown,
        KeyCode::Home | KeyCode::Char('g') => Action::Home,
        KeyCode::End | KeyCode::Char('G') => Action::End,
        KeyCode::Char('d') | KeyCode::Enter => Action::Detail,
        KeyCode::Char('c') => Action::ResetEnergy,
        KeyCode::Char('e') => Action::Events,
        KeyCode::Char('?' | 'h') | KeyCode::F(1) => Action::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ui::{Detail, Effect, Focus, Lengths, Motion, Overlay, Processes, Sort, Ui};

    const LENGTHS: Lengths = Lengths { devices: 3, processes: 50, events: 2, has_gpus: true };

    fn press(ui: &mut Ui, code: KeyCode) -> Effect {
        let action = action(KeyEvent::new(code, KeyModifiers::NONE)).unwrap();
        ui.apply(action, LENGTHS)
    }

    fn ui() -> Ui {
        Ui::new(Duration::from_secs(60))
    }

    #[test]
    fn q_and_control_c_quit_and_escape_only_goes_back() {
        let control = |character| action(KeyEvent::new(KeyCode::Char(character), KeyModifiers::CONTROL));
        assert_eq!(control('c'), Some(Action::Quit));
        assert_eq!(control('z'), Some(Action::Suspend));
        assert_eq!(control('x'), None);
        let mut ui = ui();
        assert_eq!(press(&mut ui, KeyCode::Char('q')), Effect::Quit);
        press(&mut ui, KeyCode::Enter);
        press(&mut ui, KeyCode::Char('?'));
        assert_eq!((ui.detail, ui.overlay), (Detail::One, Overlay::Help));
        assert_eq!(press(&mut ui, KeyCode::Esc), Effect::Redraw);
        assert_eq!(press(&mut ui, KeyCode::Esc), Effect::Redraw);
        assert_eq!((ui.detail, ui.overlay), (Detail::All, Overlay::Nothing));
        assert_eq!(press(&mut ui, KeyCode::Esc), Effect::Redraw, "another Esc does not quit");
    }

    #[test]
    fn the_span_grows_and_shrinks_to_its_limits() {
        let mut ui = ui();
        assert_eq!(press(&mut ui, KeyCode::Char('+')), Effect::SpanChanged);
        assert_eq!(ui.span, Duration::from_secs(120));
        for _ in 0..20 {
            press(&mut ui, KeyCode::Left);
        }
        assert_eq!(ui.span, Duration::from_secs(3600));
        for _ in 0..20 {
            press(&mut ui, KeyCode::Char('-'));
        }
        assert_eq!(ui.span, Duration::from_secs(10));
        ui.span = Duration::from_secs(45);
        press(&mut ui, KeyCode::Right);
        assert_eq!(ui.span, Duration::from_secs(30), "from a custom span to the next shorter");
    }

    #[test]
    fn arrows_move_in_the_focused_list() {
        let mut ui = ui();
        press(&mut ui, KeyCode::Up);
        assert_eq!(ui.device, 0);
        press(&mut ui, KeyCode::PageDown);
        assert_eq!((ui.device, ui.process), (2, 0), "not beyond the last");
        press(&mut ui, KeyCode::Tab);
        press(&mut ui, KeyCode::PageDown);
        assert_eq!((ui.focus, ui.device, ui.process), (Focus::Processes, 2, 10));
        press(&mut ui, KeyCode::Char('p'));
        assert_eq!((ui.focus, ui.processes), (Focus::Devices, Processes::Hidden), "a hidden list has no focus");
        press(&mut ui, KeyCode::Tab);
        assert_eq!(ui.focus, Focus::Devices);
    }

    #[test]
    fn pause_sort_and_events() {
        let mut ui = ui();
        press(&mut ui, KeyCode::Char(' '));
        assert_eq!(ui.motion, Motion::Paused);
        press(&mut ui, KeyCode::Char(' '));
        assert_eq!(ui.motion, Motion::Running);
        ui.motion = Motion::Ended;
        press(&mut ui, KeyCode::Char(' '));
        assert_eq!(ui.motion, Motion::Ended, "an ended recording does not continue");
        press(&mut ui, KeyCode::Char('s'));
        assert_eq!(ui.sort, Sort::Gpu);
        ui.sort = Sort::Pid;
        ui.apply(Action::SortNext, Lengths { has_gpus: false, ..LENGTHS });
        assert_eq!(ui.sort, Sort::Cpu, "there are no GPU columns");
        ui.message = Some(String::from("done"));
        press(&mut ui, KeyCode::Char('e'));
        assert_eq!((ui.events_seen, ui.message), (2, None));
    }

    #[test]
    fn a_key_release_is_ignored() {
        let mut key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        key.kind = KeyEventKind::Release;
        assert_eq!(action(key), None);
    }
}
