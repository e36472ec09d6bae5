//! Draws how busy a device was in one line of text.

/// From nearly idle to fully busy.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One character per time step: empty when idle, full when always busy.
pub(super) fn picture(parts: &[f64]) -> String {
    let level = |&part: &f64| {
        if part <= 0.0 {
            return ' ';
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 7")]
        let level = (part.min(1.0) * 8.0).ceil() as usize;
        LEVELS[level.clamp(1, 8) - 1]
    };
    let drawn: String = parts.iter().map(level).collect();
    format!("▕{drawn}▏")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_height_is_the_busy_share() {
        assert_eq!(picture(&[0.0, 0.001, 0.125, 0.5, 0.99, 1.0, 1.1]), "▕ ▁▁▄███▏");
        assert_eq!(picture(&[]), "▕▏");
    }
}
