//! Tracks which parts of a panel are covered by marks and texts, so that labels can use the emptiest place.

use super::Area;
use super::number::whole;

/// The size of a cell in pixels: about a fifth of the height of a letter.
const CELL: f64 = 2.5;

/// The covered parts of a panel.
#[derive(Debug)]
pub(super) struct Ink {
    area: Area,
    columns: usize,
    rows: usize,
    cells: Vec<bool>,
    texts: Vec<Area>,
}

impl Ink {
    pub(super) fn new(area: Area) -> Self {
        let columns = whole(area.width / CELL) + 1;
        let rows = whole(area.height / CELL) + 1;
        Self { area, columns, rows, cells: vec![false; columns * rows], texts: Vec::new() }
    }

    /// The cells of the panel that an area covers.
    fn covered(&self, area: Area) -> impl Iterator<Item = usize> + use<> {
        let columns = self.columns;
        let left = whole((area.x - self.area.x) / CELL);
        let right = whole((area.x + area.width - self.area.x) / CELL).min(columns - 1);
        let top = whole((area.y - self.area.y) / CELL);
        let bottom = whole((area.y + area.height - self.area.y) / CELL).min(self.rows - 1);
        (top..=bottom).flat_map(move |row| (left..=right).map(move |column| row * columns + column))
    }

    /// Marks an area as covered.
    pub(super) fn fill(&mut self, area: Area) {
        if area.overlaps(self.area) {
            for cell in self.covered(area) {
                if let Some(cell) = self.cells.get_mut(cell) {
                    *cell = true;
                }
            }
        }
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), radius: f64) {
        self.fill(Area { x: x - radius, y: y - radius, width: 2.0 * radius, height: 2.0 * radius });
    }

    /// Marks the cells along a straight line as covered.
    pub(super) fn stroke(&mut self, from: (f64, f64), to: (f64, f64)) {
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let steps = whole(length / CELL).min(2000) + 1;
        for step in 0..=steps {
            let part = step as f64 / steps as f64;
            self.dot((from.0 + part * (to.0 - from.0), from.1 + part * (to.1 - from.1)), 0.5);
        }
    }

    /// Marks an area as covered by text.
    pub(super) fn write(&mut self, area: Area) {
        self.texts.push(area);
    }

    /// Whether an area overlaps no text.
    pub(super) fn is_free(&self, area: Area) -> bool {
        !self.texts.iter().any(|text| text.overlaps(area))
    }

    /// How much of an area is covered: 0 for nothing, at least 2 if it overlaps a text.
    pub(super) fn cost(&self, area: Area) -> f64 {
        let texts = self.texts.iter().filter(|text| text.overlaps(area)).count() as f64;
        // Ink behind the letters counts more than ink that touches them.
        texts * 2.0 + 0.8 * self.inked(area.grown(-2.0)) + 0.2 * self.inked(area.grown(2.0))
    }

    /// The fraction of an area that is covered.
    fn inked(&self, area: Area) -> f64 {
        let (mut inked, mut all) = (0.0, 0.0);
        for cell in self.covered(area) {
            all += 1.0;
            inked += f64::from(u8::from(self.cells.get(cell).copied().unwrap_or(false)));
        }
        inked / f64::max(all, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(x: f64, y: f64, width: f64, height: f64) -> Area {
        Area { x, y, width, height }
    }

    #[test]
    fn texts_cost_more_than_ink() {
        let mut ink = Ink::new(area(100.0, 50.0, 200.0, 100.0));
        assert_eq!(ink.cost(area(110.0, 60.0, 40.0, 12.0)), 0.0);
        ink.stroke((100.0, 65.0), (300.0, 65.0));
        let line = ink.cost(area(110.0, 60.0, 40.0, 12.0));
        assert!(line > 0.0 && line < 1.0);
        ink.write(area(110.0, 100.0, 40.0, 12.0));
        assert!(ink.cost(area(120.0, 105.0, 40.0, 12.0)) >= 1.0);
        assert!(!ink.is_free(area(120.0, 105.0, 40.0, 12.0)));
        assert!(ink.is_free(area(120.0, 120.0, 40.0, 12.0)));
    }

    #[test]
    fn ink_outside_the_panel_does_not_count() {
        let mut ink = Ink::new(area(0.0, 0.0, 100.0, 100.0));
        ink.dot((1e9, -1e9), 3.0);
        ink.fill(area(f64::NAN, 0.0, 1.0, 1.0));
        assert_eq!(ink.cost(area(0.0, 0.0, 100.0, 100.0)), 0.0);
    }
}
