//! A key goes in; what it asks for comes out.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    /// Out of an overlay or a detail; it ends nothing.
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

/// All keys and what they do, as the help tells them.
pub(crate) const HELP: [(&str, &str); 15] = [
    ("q  Ctrl-C", "quit; the totals follow, with their intervals"),
    ("Esc", "out of a panel, or of one device alone"),
    ("space", "pause: the picture stands, sampling goes on"),
    ("+ -  left right", "the time that graphs reach back"),
    ("up down  PgUp PgDn", "choose a device, scroll processes"),
    ("Tab", "between devices and processes"),
    ("d  Enter", "one device alone, and back"),
    ("p", "processes on and off"),
    ("s", "sort processes by the next column"),
    ("S", "the other way round"),
    ("r", "record every reading to a file, on and off"),
    ("c", "count energy from here"),
    ("e", "what happened to the sensors"),
    ("Ctrl-Z", "put it aside; `fg` brings it back"),
    ("?  h", "this help"),
];

pub(crate) fn action(key: KeyEvent) -> Option<Action> {
    // Some terminals tell of keys that are let go, too.
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
    fn two_keys_end_it_and_escape_only_goes_back() {
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
        assert_eq!(press(&mut ui, KeyCode::Esc), Effect::Redraw, "one too many ends nothing");
    }

    #[test]
    fn the_span_grows_and_shrinks_to_its_ends() {
        let mut ui = ui();
        assert_eq!(press(&mut ui, KeyCode::Char('+')), Effect::Stretch);
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
        assert_eq!(ui.span, Duration::from_secs(30), "from a span of the user's own to the next");
    }

    #[test]
    fn arrows_move_in_the_list_that_has_them() {
        let mut ui = ui();
        press(&mut ui, KeyCode::Up);
        assert_eq!(ui.device, 0);
        press(&mut ui, KeyCode::PageDown);
        assert_eq!((ui.device, ui.process), (2, 0), "no further than the last");
        press(&mut ui, KeyCode::Tab);
        press(&mut ui, KeyCode::PageDown);
        assert_eq!((ui.focus, ui.device, ui.process), (Focus::Processes, 2, 10));
        press(&mut ui, KeyCode::Char('p'));
        assert_eq!((ui.focus, ui.processes), (Focus::Devices, Processes::Hidden), "what is hidden has no arrows");
        press(&mut ui, KeyCode::Tab);
        assert_eq!(ui.focus, Focus::Devices);
    }

    #[test]
    fn pause_sort_and_events() {
        let mut ui = ui();
        press(&mut ui, KeyCode::Char(' '));
        assert_eq!(ui.motion, Motion::Paused);
        press(&mut ui, KeyCode::Char(' '));
        assert_eq!(ui.motion, Motion::Going);
        ui.motion = Motion::Ended;
        press(&mut ui, KeyCode::Char(' '));
        assert_eq!(ui.motion, Motion::Ended, "what came to its end does not go on");
        press(&mut ui, KeyCode::Char('s'));
        assert_eq!(ui.sort, Sort::Gpu);
        ui.sort = Sort::Pid;
        ui.apply(Action::SortNext, Lengths { has_gpus: false, ..LENGTHS });
        assert_eq!(ui.sort, Sort::Cpu, "there are no columns of GPUs");
        ui.message = Some(String::from("done"));
        press(&mut ui, KeyCode::Char('e'));
        assert_eq!((ui.events_seen, ui.message), (2, None));
    }

    #[test]
    fn a_key_that_is_let_go_is_no_second_press() {
        let mut key = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
        key.kind = KeyEventKind::Release;
        assert_eq!(action(key), None);
    }
}
