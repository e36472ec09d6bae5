//! Plans which devices get a card with a graph, which get a line, and where.
//!
//! A few devices get cards. With many, each gets a line, and the selected one a card if there is room. Areas never
//! overlap, and lie inside the screen.

use ratatui::layout::Rect;

use crate::picture::DeviceView;

/// A card of this height has a graph of three lines.
const LOWEST_CARD: u16 = 6;
/// The preferred height of a card.
const GOOD_CARD: u16 = 8;
/// If every card is this high, devices without a power sensor get one, too.
const GENEROUS_CARD: u16 = 12;
/// The smallest width that has room for figures.
const NARROWEST_CARD: u16 = 64;

/// The areas of all parts. Devices are given by index.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) cards: Vec<(usize, Rect)>,
    pub(super) rows: Option<(Rect, Vec<usize>)>,
    pub(super) processes: Option<Rect>,
}

/// One device with all the room.
pub(super) fn alone(device: usize, body: Rect) -> Plan {
    Plan { cards: vec![(device, body)], rows: None, processes: None }
}

/// Plans the areas. `wanted` is the number of lines of the processes, 0 if they are hidden.
pub(super) fn plan(devices: &[DeviceView], chosen: usize, body: Rect, wanted: u16) -> Plan {
    let all: Vec<usize> = (0..devices.len()).collect();
    let (measured, others): (Vec<usize>, Vec<usize>) = all.iter().partition(|&&place| devices[place].is_measured());
    // Processes get the lines they need, up to two fifths of the screen.
    let for_processes = wanted.min((body.height * 2 / 5).max(3)).min(body.height / 2);
    let room = Rect { height: body.height - for_processes, ..body };
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).saturating_add(1);
    let lowest = if measured.is_empty() { LOWEST_CARD } else { GENEROUS_CARD };
    if let Some(cards) = grid(&all, room).filter(|cards| cards.iter().all(|(_, card)| card.height >= lowest)) {
        return Plan { cards, rows: None, processes: below(room, body) };
    }
    if let Some(left) = room.height.checked_sub(lines(others.len()))
        && let Some(cards) = grid(&measured, Rect { height: left, ..room })
    {
        let y = cards.iter().map(|(_, card)| card.bottom()).max().unwrap_or(room.y);
        let rows = Rect { y, height: lines(others.len()), ..room };
        let used = Rect { height: rows.bottom() - room.y, ..room };
        return Plan { cards, rows: Some((rows, others)), processes: below(used, body).filter(|_| wanted > 0) };
    }
    let height = lines(all.len()).min(room.height);
    let rows = Rect { height, ..room };
    let left = Rect { y: rows.bottom(), height: room.height - height, ..room };
    let has_card = left.height >= LOWEST_CARD;
    let cards = if has_card { vec![(chosen.min(all.len().saturating_sub(1)), left)] } else { Vec::new() };
    let used = if has_card { room } else { rows };
    Plan { cards, rows: Some((rows, all)), processes: below(used, body).filter(|_| wanted > 0) }
}

/// The rest of the body below a room.
fn below(room: Rect, body: Rect) -> Option<Rect> {
    let height = body.bottom().saturating_sub(room.bottom());
    (height > 0).then_some(Rect { y: room.bottom(), height, ..body })
}

/// Places cards in a grid that fills the room, with as few columns as possible.
fn grid(devices: &[usize], room: Rect) -> Option<Vec<(usize, Rect)>> {
    let count = u16::try_from(devices.len()).ok().filter(|&count| count > 0)?;
    let most = (room.width / NARROWEST_CARD).clamp(1, count);
    let fits = |lowest: u16| (1..=most).find(|&columns| room.height / count.div_ceil(columns) >= lowest);
    let columns = fits(GOOD_CARD).or_else(|| fits(LOWEST_CARD))?;
    let lines = count.div_ceil(columns);
    let edge = |part: u16, parts: u16, length: u16| {
        u16::try_from(u32::from(length) * u32::from(part) / u32::from(parts)).unwrap_or(length)
    };
    let place = |(index, &device): (u16, &usize)| {
        let (line, column) = (index / columns, index % columns);
        let (left, right) = (edge(column, columns, room.width), edge(column + 1, columns, room.width));
        let (top, bottom) = (edge(line, lines, room.height), edge(line + 1, lines, room.height));
        (device, Rect { x: room.x + left, y: room.y + top, width: right - left, height: bottom - top })
    };
    Some((0..count).zip(devices).map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_fill_the_room_and_stay_in_it() {
        for (count, width, height) in [(1, 80, 16), (8, 200, 36), (3, 200, 40), (10, 200, 30)] {
            let devices: Vec<usize> = (0..count).collect();
            let room = Rect::new(0, 1, width, height);
            let cards = grid(&devices, room).unwrap();
            assert_eq!(cards.len(), count);
            for (place, &(_, card)) in cards.iter().enumerate() {
                assert_eq!(room.intersection(card), card);
                assert!(card.height >= LOWEST_CARD);
                assert!(cards[..place].iter().all(|(_, other)| other.intersection(card).is_empty()));
            }
        }
        assert_eq!(grid(&[0, 1, 2], Rect::new(0, 0, 80, 16)), None);
        assert_eq!(grid(&[], Rect::new(0, 0, 80, 16)), None);
    }
}
