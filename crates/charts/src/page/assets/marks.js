// Marks: converts the data of a chart to lists of positions. Absent numbers are null in the data and NaN here, and are not
// drawn.

function numbers(list) {
    if (list instanceof Float64Array) {
        return list;
    }
    return Float64Array.from(list ?? [], (value) => value ?? NaN);
}

function places(axis, values) {
    return axis.scale.kind === "log" ? values.map((value) => placeOf(axis, value)) : values;
}

// The name of a colour in the style sheet: series-3, muted, bad, good.
function hueName(hue) {
    return typeof hue === "string" ? hue : `series-${(hue?.series ?? 0) % 8}`;
}

function isSorted(values) {
    for (let i = 1; i < values.length; i++) {
        if (!(values[i] >= values[i - 1])) {
            return false;
        }
    }
    return true;
}

// Removes entries without a position on x. If only y is missing, a line has a gap.
function withPlaces(made) {
    const lists = ["x", "xAt", "y", "yAt", "low", "lowAt", "high", "highAt", "names", "requests"];
    if (made.xAt.every(Number.isFinite)) {
        return made;
    }
    const keep = made.xAt.map(Number.isFinite);
    lists.forEach((name) => (made[name] = made[name].filter((_, i) => keep[i])));
    return made;
}

// A mark with its positions. `x`, `y`, `low` and `high` are values; names with `At` are positions.
function prepareMark(mark, x, y) {
    const made = { kind: mark.kind, label: mark.label ?? "", hue: hueName(mark.hue), stroke: mark.stroke ?? "solid" };
    if (mark.kind === "rule") {
        const axis = mark.side === "x" ? x : y;
        return { ...made, side: mark.side, at: placeOf(axis, mark.at ?? NaN) };
    }
    if (mark.kind === "spans") {
        for (const name of ["start", "turn", "end"]) {
            made[name] = numbers(mark[name]);
            made[name + "At"] = places(x, made[name]);
        }
        const lanes = mark.lane.reduce((most, lane) => Math.max(most, lane + 1), 1);
        return { ...made, lane: mark.lane, lanes, requests: mark.requests, names: mark.names };
    }
    made.x = numbers(mark.x);
    made.xAt = places(x, made.x);
    made.y = numbers(mark.y);
    made.yAt = places(y, made.y);
    // The interval is on the axis with numbers: on x if y has names.
    const measured = y.scale.kind === "names" && mark.kind !== "band" ? x : y;
    made.low = numbers(mark.low);
    made.lowAt = places(measured, made.low);
    made.high = numbers(mark.high);
    made.highAt = places(measured, made.high);
    made.names = mark.names ?? [];
    made.requests = mark.requests ?? [];
    withPlaces(made);
    made.sorted = isSorted(made.xAt);
    if (mark.kind === "bars") {
        made.flat = y.scale.kind === "names";
        made.gap = made.flat || x.scale.kind === "names" ? 1 : smallestGap(made.xAt);
    }
    return made;
}

// The smallest distance between neighbours, which limits the width of bars on a numeric axis.
function smallestGap(values) {
    const sorted = values.filter(Number.isFinite).sort();
    let gap = Infinity;
    for (let i = 1; i < sorted.length; i++) {
        if (sorted[i] > sorted[i - 1]) {
            gap = Math.min(gap, sorted[i] - sorted[i - 1]);
        }
    }
    return gap === Infinity ? 1 : gap;
}

// A range that grows to include all added values.
class Extent {
    low = Infinity;
    high = -Infinity;

    add(values, margin = 0) {
        for (const value of values) {
            if (Number.isFinite(value)) {
                this.low = Math.min(this.low, value - margin);
                this.high = Math.max(this.high, value + margin);
            }
        }
    }

    get empty() {
        return !(this.high >= this.low);
    }
}

function addX(extent, mark) {
    if (mark.kind === "rule") {
        extent.add(mark.side === "x" ? [mark.at] : []);
    } else if (mark.kind === "spans") {
        extent.add(mark.startAt);
        extent.add(mark.endAt);
    } else if (mark.kind === "bars" && mark.flat) {
        extent.add([0]);
        [mark.xAt, mark.lowAt, mark.highAt].forEach((list) => extent.add(list));
    } else {
        extent.add(mark.xAt, mark.kind === "bars" ? mark.gap / 2 : 0);
    }
}

function addY(extent, mark, horizontal) {
    if (mark.kind === "rule") {
        extent.add(mark.side === "y" ? [mark.at] : []);
    } else if (mark.kind !== "spans") {
        extent.add(mark.yAt);
        if (!horizontal || mark.kind === "band") {
            extent.add(mark.lowAt);
            extent.add(mark.highAt);
        }
        if (mark.kind === "bars" && !mark.flat) {
            extent.add([0]);
        }
    }
}

// The range of an axis in positions: its fixed domain, or the range of its marks with some space.
function rangeOf(axis, extent, air) {
    if (axis.scale.kind === "names") {
        return [-0.5, Math.max(0.5, axis.scale.names.length - 0.5)];
    }
    if (axis.domain) {
        const [low, high] = axis.domain.map((value) => placeOf(axis, value ?? NaN));
        if (high > low) {
            return [low, high];
        }
    }
    if (extent.empty) {
        return [0, 1];
    }
    let { low, high } = extent;
    if (axis.scale.kind === "linear" && axis.scale.from_zero) {
        low = Math.min(low, 0);
        high = Math.max(high, 0);
    }
    if (low === high) {
        const half = axis.scale.kind === "log" ? 0.5 : Math.abs(low) / 2 || 0.5;
        return [low - half, high + half];
    }
    const margin = (high - low) * air;
    // No extra space around zero.
    const isEnd = (value) => value === 0 && axis.scale.kind !== "log";
    return [isEnd(low) ? low : low - margin, isEnd(high) ? high : high + margin];
}

// Prepares a chart for drawing.
function prepareChart(data) {
    const across = new Extent();
    let dots = false;
    const panels = data.panels.map((panel) => {
        const marks = panel.marks.map((mark) => prepareMark(mark, data.x, panel.y));
        const extent = new Extent();
        for (const mark of marks) {
            addX(across, mark);
            addY(extent, mark, panel.y.scale.kind === "names");
            dots ||= mark.kind === "points" || (mark.kind === "bars" && mark.flat);
        }
        // A horizontal whisker extends along x.
        if (panel.y.scale.kind === "names") {
            marks.filter((mark) => mark.kind === "points").forEach((mark) => {
                across.add(mark.lowAt);
                across.add(mark.highAt);
            });
        }
        const lanes = Math.max(0, ...marks.map((mark) => mark.lanes ?? 0));
        const bars = marks.filter((mark) => mark.kind === "bars");
        bars.forEach((mark, order) => Object.assign(mark, { order, among: bars.length }));
        const empty = extent.empty && !marks.some((mark) => mark.kind === "spans" && mark.start.length > 0);
        return { y: panel.y, marks, lanes, range: rangeOf(panel.y, extent, 0.05), share: panel.share, empty };
    });
    const empty = panels.every((panel) => panel.empty);
    return { ...data, panels, empty, range: rangeOf(data.x, across, dots ? 0.025 : 0) };
}
