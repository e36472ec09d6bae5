// Picking: finds the mark at a pixel. The result has a head, lines of name and value, the pixel of the mark and, if there
// is one, a request number.

const REACH = 26;

function pick(chart, number, view, px, py) {
    const shown = chart.panels[number].marks.filter((mark) => !chart.isHidden(mark));
    const context = { chart, panel: chart.panels[number], view, px, py };
    const of = (kind) => shown.filter((mark) => mark.kind === kind);
    return pickSpan(context, of("spans"))
        ?? pickPoint(context, of("points"))
        ?? pickBar(context, of("bars"))
        ?? pickLines(context, shown.filter(({ kind }) => kind === "line" || kind === "step"), of("band"));
}

function pickPoint({ chart, panel, view, px, py }, marks) {
    let [best, nearest] = [null, REACH * REACH];
    for (const mark of marks) {
        for (let i = 0; i < mark.xAt.length; i++) {
            const dx = view.x0 + mark.xAt[i] * view.kx - px;
            const dy = view.y0 + mark.yAt[i] * view.ky - py;
            const distance = dx * dx + dy * dy;
            if (distance < nearest) {
                [best, nearest] = [{ mark, i }, distance];
            }
        }
    }
    // The tooltip shows the nearest mark; a click acts on the mark under the pointer.
    return best && { ...describePoint(chart, panel, view, best.mark, best.i), near: nearest <= 100 };
}

function describePoint(chart, panel, view, mark, i) {
    const flat = panel.y.scale.kind === "names";
    const lines = [
        [chart.x.label || "x", valueText(chart.x, mark.x[i])],
        [panel.y.label || "y", valueText(panel.y, mark.y[i])],
    ].filter((_, at) => [chart.x, panel.y][at].scale.kind !== "plain");
    lines.push(...intervalLine(flat ? chart.x : panel.y, mark, i));
    return {
        head: mark.names[i] ?? "", series: mark.label, hue: mark.hue, lines, request: mark.requests[i],
        at: [view.x0 + mark.xAt[i] * view.kx, view.y0 + mark.yAt[i] * view.ky], dot: true,
    };
}

function intervalLine(axis, mark, i) {
    const [low, high] = [mark.low[i], mark.high[i]];
    const known = Number.isFinite(low) && Number.isFinite(high);
    return known ? [["interval", `${valueText(axis, low)} to ${valueText(axis, high)}`]] : [];
}

function pickSpan({ chart, view, px, py }, marks) {
    let [best, nearest] = [null, 6];
    for (const mark of marks) {
        for (let i = 0; i < mark.startAt.length; i++) {
            const box = spanBox(mark, view, i);
            const aside = Math.max(box.left - px, px - box.left - box.width, 0);
            const above = Math.max(box.top - py, py - box.top - box.height, 0);
            if (aside + above < nearest) {
                [best, nearest] = [{ mark, i }, aside + above];
            }
        }
    }
    return best && describeSpan(chart, view, best.mark, best.i);
}

function describeSpan(chart, view, mark, i) {
    const [start, turn, end] = [mark.start[i], mark.turn[i], mark.end[i]];
    const span = valueOf(chart.x, view.high) - valueOf(chart.x, view.low);
    const lines = [
        ["from", momentText(chart.x, start, span)],
        ["to", momentText(chart.x, end, span)],
        ["length", valueText(chart.x, end - start)],
    ];
    if (Number.isFinite(turn)) {
        lines.push(["paler part", valueText(chart.x, turn - start)]);
    }
    const box = spanBox(mark, view, i);
    // The tooltip is at the end of the span, so that it does not hide the span.
    const right = Math.min(view.box.left + view.box.width, Math.max(view.box.left, box.left + box.width));
    return { head: mark.names[i] ?? "", series: mark.label, hue: mark.hue, lines, request: mark.requests[i],
        at: [right, box.top + box.height / 2], dot: false, near: true };
}

function pickBar({ chart, panel, view, px, py }, marks) {
    for (const mark of marks) {
        for (let i = 0; i < mark.xAt.length; i++) {
            const box = barBox(mark, view, i);
            if (!box) {
                continue;
            }
            // A short bar can be picked in its whole row or column.
            const inside = mark.flat ? py >= box.top && py < box.top + box.height : px >= box.left && px < box.left + box.width;
            if (inside) {
                const picked = describePoint(chart, panel, view, mark, i);
                const shift = barShift(mark, view);
                picked.at[mark.flat ? 1 : 0] += shift;
                return { ...picked, dot: false, near: true };
            }
        }
    }
    return null;
}

// The values of all lines at the nearest x.
function pickLines({ chart, panel, view, px }, marks, bands) {
    const place = (px - view.x0) / view.kx;
    let [moment, nearest] = [null, Infinity];
    const found = [];
    for (const mark of marks) {
        const i = nearestEntry(mark, place);
        if (i < 0) {
            continue;
        }
        found.push({ mark, i });
        if (Math.abs(mark.xAt[i] - place) < nearest) {
            [moment, nearest] = [{ mark, i }, Math.abs(mark.xAt[i] - place)];
        }
    }
    if (!moment) {
        return null;
    }
    const span = valueOf(chart.x, view.high) - valueOf(chart.x, view.low);
    const lines = [];
    for (const { mark, i } of found.slice(0, 10)) {
        lines.push([mark.label || panel.y.label || "y", valueText(panel.y, mark.y[i]), mark.hue]);
        const band = bands.find(({ hue, xAt }) => hue === mark.hue && xAt[i] === mark.xAt[i]);
        lines.push(...(band ? intervalLine(panel.y, band, i) : []));
    }
    const { mark, i } = moment;
    return { head: `${chart.x.label || "x"} ${momentText(chart.x, mark.x[i], span)}`, series: "", hue: mark.hue, lines,
        at: [view.x0 + mark.xAt[i] * view.kx, view.y0 + mark.yAt[i] * view.ky], dot: true };
}

// A step has the value of the entry before; a line has the value of the nearest entry.
function nearestEntry(mark, place) {
    const count = mark.xAt.length;
    if (!mark.sorted) {
        let [best, nearest] = [-1, Infinity];
        for (let i = 0; i < count; i++) {
            const distance = Math.abs(mark.xAt[i] - place);
            if (distance < nearest && Number.isFinite(mark.yAt[i])) {
                [best, nearest] = [i, distance];
            }
        }
        return best;
    }
    let i = Math.min(count - 1, firstFrom(mark.xAt, place));
    if (i > 0 && (mark.kind === "step" ? mark.xAt[i] > place : place - mark.xAt[i - 1] < mark.xAt[i] - place)) {
        i -= 1;
    }
    return i >= 0 && Number.isFinite(mark.yAt[i]) ? i : -1;
}
