// Axes: the layout of a chart, its grid and its labels. The grid is on the canvas below the data, labels are SVG above it.

const TICK = 12;
const BOLD = 560;

// The layout: the boxes of the panels, the ticks of all axes, the margins.
function layOut(chart, width, view) {
    const narrow = width < 560;
    const direct = !narrow && chart.panels.every((panel) => endLabels(panel, chart.hidden).length <= 8);
    const labels = direct ? chart.panels.flatMap((panel) => endLabels(panel, new Set())) : [];
    const longest = Math.max(0, ...labels.map((mark) => measure(mark.label, TICK, BOLD)));
    const right = longest > 0 ? Math.min(longest, 150, width * 0.22) + 12 : 14;
    const heights = panelHeights(chart, narrow);
    const panels = chart.panels.map((panel, number) => {
        const height = heights[number];
        const scale = ticks(panel.y, panel.range[0], panel.range[1], Math.max(2, height / 48));
        return { scale, height };
    });
    const widest = Math.max(0, ...panels.flatMap(({ scale }) => scale.list.map(({ text }) => measure(text, TICK))));
    const left = Math.ceil(Math.min(widest, width * (narrow ? 0.3 : 0.28))) + 12;
    const inner = Math.max(40, width - left - right);
    const x = ticks(chart.x, view[0], view[1], Math.max(2, inner / (narrow ? 64 : 84)));
    const turned = chart.x.scale.kind === "names"
        && x.list.some(({ text }) => measure(text, TICK) > inner / x.list.length - 8);
    let top = 4;
    chart.panels.forEach((panel, number) => {
        top += panel.y.label || panels[number].scale.unit ? 26 : 8;
        panels[number].box = { left, top, width: inner, height: panels[number].height };
        top += panels[number].height + (number + 1 < panels.length ? 10 : 0);
    });
    const names = turned ? Math.min(100, Math.max(0, ...x.list.map(({ text }) => measure(text, TICK)))) : 0;
    const below = (x.list.length === 0 ? 4 : turned ? names * 0.7 + 20 : 20) + (axisTitle(chart.x, x.unit) ? 20 : 4);
    return { panels, x, turned, names, direct, width, height: Math.ceil(top + below), bottom: top };
}

// Lines with a label at their end.
function endLabels(panel, hidden) {
    return panel.marks.filter(({ kind, label }) => (kind === "line" || kind === "step") && label && !hidden.has(label));
}

function panelHeights(chart, narrow) {
    const shares = chart.panels.map(({ share }) => (share > 0 ? share : 1));
    const sum = shares.reduce((total, share) => total + share, 0);
    let total = (narrow ? 220 : 290) + (chart.panels.length - 1) * (narrow ? 70 : 100);
    chart.panels.forEach((panel, number) => {
        const least = panel.y.scale.kind === "names" ? panel.y.scale.names.length * rowHeight(panel) + 8
            : Math.min(160, panel.lanes * 9);
        const listOnly = panel.y.scale.kind === "names" && chart.panels.length === 1;
        total = listOnly ? Math.max(60, least) : Math.max(total, (least * sum) / shares[number]);
    });
    // An empty chart needs little space.
    total = chart.empty ? Math.min(total, 90) : total;
    return shares.map((share) => Math.round((total * share) / sum));
}

// The height of a row: one line of text per name, more for several bars side by side.
function rowHeight(panel) {
    const bars = panel.marks.filter(({ kind }) => kind === "bars").length;
    return Math.max(28, bars * 14 + 8);
}

// The mapping from positions to pixels in one panel.
function viewOf(chart, panel, box, range) {
    const layoutWidth = chart.layout.width;
    const [low, high] = range;
    const kx = box.width / (high - low);
    const [y0, y1] = panel.range;
    // The first name and the first lane are at the top.
    const down = panel.y.scale.kind === "names";
    const ky = (down ? 1 : -1) * (box.height / (y1 - y0));
    return {
        box, low, high, kx, ky,
        ratio: window.devicePixelRatio || 1,
        x0: box.left - low * kx,
        y0: down ? box.top - y0 * ky : box.top + box.height - y0 * ky,
        bottom: y0,
        lanes: Math.max(1, down ? panel.y.scale.names.length : panel.lanes),
        flat: down,
        upright: chart.x.scale.kind === "names",
        narrow: layoutWidth < 560,
        apart: down || chart.x.scale.kind === "names",
        logX: chart.x.scale.kind === "log",
        logY: panel.y.scale.kind === "log",
    };
}

function axisTitle(axis, unit) {
    return unit ? `${axis.label}${axis.label ? " " : ""}(${unit})` : axis.label;
}

function paintGrid(context, views, layout, colours) {
    context.lineWidth = 1;
    views.forEach((view, number) => {
        const { left, top, width, height } = view.box;
        context.strokeStyle = colours.grid;
        context.beginPath();
        // Rows of names need no grid lines.
        const rows = view.flat ? [] : layout.panels[number].scale.list;
        for (const { at } of rows) {
            const y = Math.round(view.y0 + at * view.ky) + 0.5;
            context.moveTo(left, y);
            context.lineTo(left + width, y);
        }
        for (const { at } of view.upright ? [] : layout.x.list) {
            const x = Math.round(view.x0 + at * view.kx) + 0.5;
            context.moveTo(x, top);
            context.lineTo(x, top + height);
        }
        context.stroke();
        context.strokeStyle = colours.axis;
        context.strokeRect(left + 0.5, top + height + 0.5, width, 0);
    });
}

function words(x, y, text, attributes = {}) {
    return drawn("text", { x, y, ...attributes }, text);
}

// The labels of all axes.
function axisWords(chart, layout, views) {
    const made = [];
    views.forEach((view, number) => {
        const { left, top } = view.box;
        const { scale } = layout.panels[number];
        const { y } = chart.panels[number];
        const title = axisTitle(y, scale.unit);
        if (title) {
            made.push(words(0, top - 13, fitted(title, layout.width - 4), { class: "axis" }));
        }
        for (const { at, text } of scale.list) {
            const shown = fitted(text, left - 10, TICK);
            const label = words(left - 8, view.y0 + at * view.ky, shown, { class: "tick end middle" });
            if (shown !== text) {
                label.append(drawn("title", {}, text));
            }
            made.push(label);
        }
    });
    const last = views.at(-1);
    if (!last) {
        return made;
    }
    const { left, width, top, height } = last.box;
    const below = top + height;
    let edge = -Infinity;
    const half = ({ text }) => measure(text, TICK) / 2;
    for (const tick of layout.x.list) {
        const x = last.x0 + tick.at * last.kx;
        if (layout.turned) {
            // Omits names that are closer together than a line of text is high.
            if (x - edge < 13) {
                continue;
            }
            edge = x;
            const text = fitted(tick.text, layout.names, TICK);
            const turn = `rotate(-42 ${x + 4} ${below + 14})`;
            made.push(words(x + 4, below + 14, text, { class: "tick end", transform: turn }));
        } else {
            const at = Math.min(x, layout.width - half(tick) - 1);
            if (at - half(tick) < edge + 8) {
                continue;
            }
            edge = at + half(tick);
            made.push(words(at, below + 17, tick.text, { class: "tick centre" }));
        }
    }
    const title = axisTitle(chart.x, layout.x.unit);
    if (title) {
        const text = fitted(title, layout.width - 8);
        made.push(words(left + width / 2, layout.height - 6, text, { class: "axis centre" }));
    }
    return made;
}
