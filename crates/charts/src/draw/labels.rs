//! Places the labels of lines, rules, points and bars so that no two overlap.

use super::font::{self, Weight};
use super::ink::Ink;
use super::write::{Anchor, Svg, Text};
use super::{Area, SMALL, View};
use crate::{Hue, Side};

/// The label of a point.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PointLabel {
    pub(super) place: (f64, f64),
    pub(super) radius: f64,
    pub(super) text: String,
    pub(super) hue: Hue,
}

/// The label at the end of a bar.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BarLabel {
    pub(super) place: (f64, f64),
    pub(super) room: f64,
    pub(super) text: String,
}

/// The label of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LineEnd {
    /// The last visible point of the line.
    pub(super) end: (f64, f64),
    /// The mean height of the line. It orders the labels of lines that end at the same point.
    pub(super) middle: f64,
    pub(super) text: String,
    pub(super) hue: Hue,
}

/// The label of a rule.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RuleLabel {
    pub(super) side: Side,
    pub(super) place: f64,
    pub(super) text: String,
    pub(super) hue: Hue,
}

/// The height of a line of small text.
const LINE: f64 = SMALL + 3.0;

/// The maximum width of a label in the margin.
pub(super) const MARGIN: f64 = 170.0;

/// Moves sorted heights to distances of at least `apart`, between two ends, each as little as possible.
pub(super) fn spread(wanted: &[f64], apart: f64, low: f64, high: f64) -> Vec<f64> {
    // Neighbours that touch move as a group (pool adjacent violators): (sum of wanted starts, count).
    let mut groups: Vec<(f64, usize)> = Vec::new();
    let room = (high - low - apart * (wanted.len().max(1) - 1) as f64).max(0.0);
    let start = |group: (f64, usize)| (group.0 / group.1 as f64).clamp(low, low + room);
    for (index, wanted) in wanted.iter().enumerate() {
        groups.push((wanted - index as f64 * apart, 1));
        while let [.., before, last] = groups[..] {
            if start(before) <= start(last) {
                break;
            }
            groups.pop();
            groups.pop();
            groups.push((before.0 + last.0, before.1 + last.1));
        }
    }
    let starts = groups.into_iter().flat_map(|group| std::iter::repeat_n(start(group), group.1));
    starts.enumerate().map(|(index, start)| start + index as f64 * apart).collect()
}

fn small<'a>(content: &'a str, colour: &'a str, weight: Weight) -> Text<'a> {
    Text { x: 0.0, y: 0.0, size: SMALL, weight, anchor: Anchor::Start, colour, outline: None, rotation: 0.0, content }
}

/// The area of a text, given its left edge and its vertical middle.
fn text_area(text: &str, weight: Weight, (x, middle): (f64, f64)) -> Area {
    Area { x, y: middle - SMALL / 2.0, width: font::width(text, SMALL, weight), height: SMALL }
}

/// Writes a text inside the panel, given its left edge and its vertical middle.
fn write(svg: &mut Svg, view: &View, ink: &mut Ink, text: &Text<'_>, (x, middle): (f64, f64)) {
    let outline = Some(view.theme.paper().background);
    svg.text(&Text { x, y: middle + SMALL * 0.36, outline, ..*text });
    ink.write(text_area(text.content, text.weight, (x, middle)));
}

/// Writes the labels of lines: inside the panel beside their ends if there is space, otherwise in the margin. Returns
/// the number of labels without space.
pub(super) fn line_ends(svg: &mut Svg, view: &View, ink: &mut Ink, ends: Vec<LineEnd>) -> usize {
    let area = view.area;
    let right = area.x + area.width;
    // Half a pixel for rounding.
    let room = (view.margin - 12.5).min(MARGIN);
    let (mut margin, mut left_out) = (Vec::new(), 0);
    for mut end in ends {
        end.text = font::cut(&end.text, MARGIN, SMALL, Weight::Strong);
        let width = font::width(&end.text, SMALL, Weight::Strong);
        let at_edge = end.end.0 >= right - 12.0;
        let inside = [(6.0, 0.0), (4.0, -9.0), (4.0, 9.0), (-width, -11.0), (-width, 11.0)]
            .map(|(x, y)| (end.end.0 + x, end.end.1 + y))
            .into_iter()
            .map(|place| (place, text_area(&end.text, Weight::Strong, place)))
            .filter(|(_, own)| own.x + own.width < right && own.inside(area.grown(4.0)) && ink.is_free(*own))
            .map(|(place, own)| (place, ink.cost(own)))
            .find(|(_, cost)| *cost < 0.02 || (*cost < 0.4 && width > room));
        match inside {
            Some((place, _)) if !at_edge || width > room => {
                let text = small(&end.text, end.hue.text_colour(view.theme), Weight::Strong);
                write(svg, view, ink, &text, place);
            }
            // There must be space for at least a few letters and `…`.
            _ if room >= width.min(30.0) => margin.push(end),
            _ => left_out += 1,
        }
    }
    // Ends within three pixels count as the same height.
    let height = |end: &LineEnd| (end.end.1 / 3.0).round();
    margin.sort_by(|one, other| height(one).total_cmp(&height(other)).then(one.middle.total_cmp(&other.middle)));
    let fitting = super::number::whole(area.height / LINE).max(1);
    left_out += margin.len().saturating_sub(fitting);
    margin.truncate(fitting);
    let wanted: Vec<f64> = margin.iter().map(|end| end.end.1).collect();
    let heights = spread(&wanted, LINE, area.y + 2.0, area.y + area.height - 2.0);
    for (end, height) in margin.iter().zip(heights) {
        let colour = end.hue.text_colour(view.theme);
        let text = font::cut(&end.text, room, SMALL, Weight::Strong);
        if (height - end.end.1).abs() > 4.0 || end.end.0 < right - 12.0 {
            let from = if end.end.0 < right - 12.0 { (end.end.0 + 3.0, end.end.1) } else { (right + 2.0, end.end.1) };
            let style = format!("stroke=\"{colour}\" stroke-width=\"0.8\" stroke-opacity=\"0.6\"");
            svg.line(from, (right + 11.0, height), &style);
        }
        svg.text(&Text { x: right + 13.0, y: height + SMALL * 0.36, ..small(&text, colour, Weight::Strong) });
        ink.write(text_area(&text, Weight::Strong, (right + 13.0, height)).grown(2.0));
    }
    left_out
}

/// Writes the labels of rules along the rule, where there is least ink. Returns the number of labels without space.
pub(super) fn rules(svg: &mut Svg, view: &View, ink: &mut Ink, labels: &[RuleLabel]) -> usize {
    let mut left_out = 0;
    let area = view.area;
    for label in labels {
        let room = match label.side {
            Side::Y => area.width,
            Side::X => (label.place - area.x).max(area.x + area.width - label.place),
        };
        let content = font::cut(&label.text, (room - 12.0).min(area.width * 0.6), SMALL, Weight::Regular);
        let width = font::width(&content, SMALL, Weight::Regular);
        let mut places = Vec::new();
        match label.side {
            Side::Y => {
                let (left, right) = (area.x + 4.0, area.x + area.width - width - 4.0);
                // Prefers the ends of the rule, and above rather than below.
                for part in [0, 6, 1, 5, 2, 4, 3] {
                    let x = right + (left - right) * f64::from(part) / 6.0;
                    places.extend([(x, label.place - 11.0), (x, label.place + 11.0)]);
                }
            }
            Side::X => {
                // From top to bottom, including between two rows of points.
                for step in 0..40 {
                    let y = area.y + 8.0 + f64::from(step) * (area.height - 16.0) / 39.0;
                    places.extend([(label.place + 6.0, y), (label.place - width - 6.0, y)]);
                }
            }
        }
        // Positions outside the panel cost most, then other texts, then ink. The first of equal positions wins.
        let cost = |place: &(f64, f64)| {
            let own = text_area(&content, Weight::Regular, *place);
            ink.cost(own) + if own.inside(area.grown(6.0)) { 0.0 } else { 10.0 }
        };
        let best = places.into_iter().min_by(|one, other| cost(one).total_cmp(&cost(other)));
        if let Some(place) = best.filter(|place| ink.is_free(text_area(&content, Weight::Regular, *place))) {
            write(svg, view, ink, &small(&content, label.hue.text_colour(view.theme), Weight::Regular), place);
        } else {
            left_out += 1;
        }
    }
    left_out
}

/// Writes the labels of points where they overlap no other text. Returns the number of labels without space.
pub(super) fn points(svg: &mut Svg, view: &View, ink: &mut Ink, named: &[PointLabel]) -> usize {
    // More labels are illegible, however much space there is.
    if named.len() > 60 {
        return named.len();
    }
    let mut left_out = 0;
    for name in named {
        let content = font::cut(&name.text, MARGIN, SMALL, Weight::Regular);
        let width = font::width(&content, SMALL, Weight::Regular);
        let (x, y) = name.place;
        let away = name.radius + 4.0;
        let places = [
            (x + away, y),
            (x - away - width, y),
            (x - width / 2.0, y - away - 5.0),
            (x - width / 2.0, y + away + 6.0),
            (x + away - 2.0, y - away - 3.0),
            (x + away - 2.0, y + away + 4.0),
            (x - width - away + 2.0, y - away - 3.0),
            (x - width - away + 2.0, y + away + 4.0),
        ];
        let own = |place: &(f64, f64)| text_area(&content, Weight::Regular, *place);
        // Labels may also use the margin on the right.
        let picture = Area { width: view.area.width + view.margin, ..view.area }.grown(8.0);
        let best = places
            .into_iter()
            .filter(|place| own(place).inside(picture) && ink.is_free(own(place)))
            .min_by(|one, other| ink.cost(own(one)).total_cmp(&ink.cost(own(other))))
            .filter(|place| ink.cost(own(place)) < 0.6);
        match best {
            Some(place) => {
                write(svg, view, ink, &small(&content, name.hue.text_colour(view.theme), Weight::Regular), place);
            }
            None => left_out += 1,
        }
    }
    left_out
}

/// Writes the labels of bars: to the right of horizontal bars, above vertical bars.
pub(super) fn bars(svg: &mut Svg, view: &View, ink: &mut Ink, texts: &[BarLabel]) {
    let colour = view.theme.paper().muted;
    for text in texts.iter().take(300) {
        let room =
            if view.across { view.area.x + view.area.width + view.margin - text.place.0 - 6.0 } else { text.room };
        let content = font::cut(&text.text, room, SMALL, Weight::Regular);
        let width = font::width(&content, SMALL, Weight::Regular);
        let place = if view.across {
            (text.place.0 + 6.0, text.place.1)
        } else {
            let right = view.area.x + view.area.width + view.margin;
            ((text.place.0 - width / 2.0).min(right - width).max(0.0), text.place.1 - 9.0)
        };
        if ink.is_free(text_area(&content, Weight::Regular, place)) && content != "…" {
            write(svg, view, ink, &small(&content, colour, Weight::Regular), place);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn touching_labels_move_as_little_as_possible() {
        assert_eq!(spread(&[50.0, 100.0], 15.0, 0.0, 200.0), [50.0, 100.0]);
        assert_eq!(spread(&[50.0, 50.0], 15.0, 0.0, 200.0), [42.5, 57.5]);
        assert_eq!(spread(&[0.0, 0.0, 0.0], 15.0, 0.0, 200.0), [0.0, 15.0, 30.0]);
        assert!(spread(&[], 15.0, 0.0, 200.0).is_empty());
    }

    proptest! {
        #[test]
        fn no_labels_touch_and_all_are_inside(mut wanted in prop::collection::vec(-50.0..450.0f64, 0..20)) {
            wanted.sort_unstable_by(f64::total_cmp);
            let placed = spread(&wanted, 15.0, 0.0, 400.0);
            prop_assert!(placed.windows(2).all(|pair| pair[1] - pair[0] >= 15.0 - 1e-9));
            prop_assert!(placed.iter().all(|place| (-1e-9..=400.0 + 1e-9).contains(place)));
        }
    }
}
