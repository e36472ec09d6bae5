// Painting: marks become pixels of a canvas. A place becomes a pixel by `origin + place * factor`, held by `view`:
// { box, x0, kx, y0, ky, low, high }, low and high being the places at the left and the right edge.

const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "down", "ring", "plus"];

// Series differ in shape as well as in colour.
function shapeOf(hue) {
    return SHAPES[Number(hue.split("-")[1] ?? 0)];
}

// The outline of a shape around a point.
function traceShape(context, shape, x, y, r) {
    const corners = {
        square: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
        triangle: [[0, -1.15], [1.1, 0.8], [-1.1, 0.8]],
        down: [[0, 1.15], [1.1, -0.8], [-1.1, -0.8]],
        diamond: [[0, -1.3], [1.1, 0], [0, 1.3], [-1.1, 0]],
        plus: [[-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4], [0.4, 1.2], [-0.4, 1.2],
            [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]],
        cross: [[0, -0.5], [0.6, -1.1], [1.1, -0.6], [0.5, 0], [1.1, 0.6], [0.6, 1.1], [0, 0.5], [-0.6, 1.1],
            [-1.1, 0.6], [-0.5, 0], [-1.1, -0.6], [-0.6, -1.1]],
    }[shape];
    context.beginPath();
    if (corners) {
        corners.forEach(([a, b]) => context.lineTo(x + a * r, y + b * r));
        context.closePath();
    } else {
        context.arc(x, y, r, 0, 2 * Math.PI);
        if (shape === "ring") {
            context.arc(x, y, r * 0.5, 0, 2 * Math.PI, true);
        }
    }
}

// The first place that is not left of another one, in a sorted list.
function firstFrom(places, place) {
    let [low, high] = [0, places.length];
    while (low < high) {
        const middle = (low + high) >> 1;
        if (places[middle] < place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

// Which entries of a line can be seen, with one more on each side.
function visible(mark, view) {
    if (!mark.sorted) {
        return [0, mark.xAt.length];
    }
    const from = firstFrom(mark.xAt, view.low) - 1;
    const to = firstFrom(mark.xAt, view.high) + 2;
    return [Math.max(0, from), Math.min(mark.xAt.length, to)];
}

const DASHES = { solid: [], dashed: [7, 4], dotted: [1.5, 4] };

function paintLine(context, mark, view, colours) {
    const stepped = mark.kind === "step";
    const [from, to] = visible(mark, view);
    context.strokeStyle = colours[mark.hue];
    context.lineWidth = to - from > 4 * view.box.width ? 1 : 1.75;
    context.setLineDash(DASHES[mark.stroke]);
    context.beginPath();
    if (mark.sorted && to - from > 3 * view.box.width) {
        traceColumns(context, mark, view, from, to);
    } else {
        let [open, last] = [false, 0];
        for (let i = from; i < to; i++) {
            const [x, y] = [view.x0 + mark.xAt[i] * view.kx, view.y0 + mark.yAt[i] * view.ky];
            if (!Number.isFinite(x) || !Number.isFinite(y)) {
                open = false;
                continue;
            }
            if (open && stepped) {
                context.lineTo(x, last);
            }
            open ? context.lineTo(x, y) : context.moveTo(x, y);
            [open, last] = [true, y];
        }
    }
    context.stroke();
    context.setLineDash([]);
}

// More samples than pixels: each column of pixels gets its first, smallest, largest and last value, so that no peak is
// lost and 200,000 samples cost as much to stroke as 2,000.
function traceColumns(context, mark, view, from, to) {
    let [column, first, low, high, last, open] = [NaN, NaN, Infinity, -Infinity, NaN, false];
    let held = NaN;
    const flush = () => {
        if (!(high >= low)) {
            return;
        }
        if (mark.kind === "step" && open) {
            context.lineTo(column, held);
        }
        open ? context.lineTo(column, first) : context.moveTo(column, first);
        context.lineTo(column, low);
        context.lineTo(column, high);
        context.lineTo(column, last);
        held = last;
        open = true;
    };
    for (let i = from; i < to; i++) {
        const y = view.y0 + mark.yAt[i] * view.ky;
        const x = Math.round(view.x0 + mark.xAt[i] * view.kx);
        if (x !== column) {
            flush();
            [column, first, low, high] = [x, y, Infinity, -Infinity];
        }
        if (Number.isFinite(y)) {
            low = Math.min(low, y);
            high = Math.max(high, y);
            last = y;
        } else {
            flush();
            [first, low, high, open] = [NaN, Infinity, -Infinity, false];
        }
        if (!Number.isFinite(first)) {
            first = y;
        }
    }
    flush();
}

function paintBand(context, mark, view, colours) {
    const [from, to] = visible(mark, view);
    // A few entries for each pixel draw the same band as all of them; the outermost of each group is kept.
    const group = Math.max(1, Math.floor((to - from) / (2 * view.box.width)));
    const [upper, lower] = [[], []];
    for (let start = from; start < to; start += group) {
        let [low, high, x] = [Infinity, -Infinity, NaN];
        for (let i = start; i < Math.min(to, start + group); i++) {
            if (Number.isFinite(mark.xAt[i]) && Number.isFinite(mark.highAt[i])) {
                // What is below a logarithmic axis reaches its foot.
                const foot = Number.isFinite(mark.lowAt[i]) ? mark.lowAt[i] : view.bottom;
                [low, high] = [Math.min(low, foot), Math.max(high, mark.highAt[i])];
                x = mark.xAt[i];
            }
        }
        if (high >= low) {
            upper.push([view.x0 + x * view.kx, view.y0 + high * view.ky]);
            lower.push([view.x0 + x * view.kx, view.y0 + low * view.ky]);
        }
    }
    context.fillStyle = colours[mark.hue];
    context.globalAlpha = 0.2;
    context.beginPath();
    [...upper, ...lower.reverse()].forEach(([x, y]) => context.lineTo(x, y));
    context.fill();
    context.globalAlpha = 1;
}

// A picture of the shape, painted once and copied for each point.
function stamp(shape, colour, radius, ratio) {
    const side = Math.ceil((radius * 2.8 + 2) * ratio);
    const canvas = element("canvas", { width: side, height: side });
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.fillStyle = colour;
    traceShape(context, shape, side / ratio / 2, side / ratio / 2, radius);
    context.fill();
    return { canvas, half: side / ratio / 2, size: side / ratio };
}

function radiusFor(count) {
    return count > 20000 ? 1.5 : count > 2000 ? 2 : count > 300 ? 2.75 : 4;
}

function paintPoints(context, mark, view, colours) {
    const count = mark.xAt.length;
    const colour = colours[mark.hue];
    paintWhiskers(context, mark, view, colour, view.flat);
    const { canvas, half, size } = stamp(shapeOf(mark.hue), colour, radiusFor(count), view.ratio);
    const { left, top, width, height } = view.box;
    // One point for each pixel: of 100,000 points most lie on others, and copying is what costs.
    const columns = Math.ceil(width) + 9;
    const taken = count > 3000 ? new Uint8Array(columns * (Math.ceil(height) + 9)) : null;
    context.globalAlpha = count > 300 ? 0.6 : 0.9;
    for (let i = 0; i < count; i++) {
        const x = view.x0 + mark.xAt[i] * view.kx;
        const y = view.y0 + mark.yAt[i] * view.ky;
        if (!(x > left - 4 && x < left + width + 4 && y > top - 4 && y < top + height + 4)) {
            continue;
        }
        if (taken) {
            const cell = Math.round(y - top + 4) * columns + Math.round(x - left + 4);
            if (taken[cell] > 1) {
                continue;
            }
            taken[cell] += 1;
        }
        context.drawImage(canvas, x - half, y - half, size, size);
    }
    context.globalAlpha = 1;
}

function paintWhiskers(context, mark, view, colour, flat) {
    if (mark.lowAt.length === 0) {
        return;
    }
    const cap = mark.lowAt.length > 100 ? 0 : 4;
    context.strokeStyle = colour;
    context.lineWidth = mark.lowAt.length > 100 ? 0.75 : 1.5;
    context.beginPath();
    for (let i = 0; i < mark.lowAt.length; i++) {
        const shift = mark.kind === "bars" ? barShift(mark, view) : 0;
        const [factor, origin] = flat ? [view.kx, view.x0] : [view.ky, view.y0];
        const across = flat ? view.y0 + mark.yAt[i] * view.ky + shift : view.x0 + mark.xAt[i] * view.kx + shift;
        const [a, b] = [origin + mark.lowAt[i] * factor, origin + mark.highAt[i] * factor];
        if (!Number.isFinite(across + a + b)) {
            continue;
        }
        for (const [u1, v1, u2, v2] of [[a, across, b, across], [a, across - cap, a, across + cap],
            [b, across - cap, b, across + cap]]) {
            flat ? context.moveTo(u1, v1) : context.moveTo(v1, u1);
            flat ? context.lineTo(u2, v2) : context.lineTo(v2, u2);
        }
    }
    context.stroke();
}

// How thick a bar is, in pixels. Bars at names leave room between them, those of a histogram touch.
function barWidth(mark, view) {
    const slot = mark.gap * Math.abs(mark.flat ? view.ky : view.kx);
    return view.apart ? Math.min(44, (slot * 0.72) / mark.among) : Math.max(1, slot - (slot > 4 ? 1 : 0));
}

// How far a bar stands beside the place it belongs to, where several belong to one.
function barShift(mark, view) {
    return view.apart ? (mark.order - (mark.among - 1) / 2) * barWidth(mark, view) : 0;
}

function barBox(mark, view, i) {
    const thick = barWidth(mark, view);
    const shift = barShift(mark, view);
    const x = view.x0 + mark.xAt[i] * view.kx;
    const y = view.y0 + mark.yAt[i] * view.ky;
    if (!Number.isFinite(x + y)) {
        return null;
    }
    if (mark.flat) {
        const zero = view.logX ? view.box.left : view.x0;
        return { left: Math.min(zero, x), top: y + shift - thick / 2, width: Math.abs(x - zero), height: thick };
    }
    const zero = view.logY ? view.box.top + view.box.height : view.y0;
    return { left: x + shift - thick / 2, top: Math.min(zero, y), width: thick, height: Math.abs(y - zero) };
}

function paintBars(context, mark, view, colours) {
    context.fillStyle = colours[mark.hue];
    context.globalAlpha = mark.among > 1 && !view.apart ? 0.55 : mark.lowAt.length > 0 ? 0.6 : 0.85;
    for (let i = 0; i < mark.xAt.length; i++) {
        const box = barBox(mark, view, i);
        if (box) {
            context.fillRect(box.left, box.top, box.width, box.height);
        }
    }
    context.globalAlpha = 1;
    paintWhiskers(context, mark, view, colours.ink, mark.flat);
}

// Where a span lies, in pixels.
function spanBox(mark, view, i) {
    const tall = view.box.height / view.lanes;
    const gap = tall > 6 ? 2 : tall > 3 ? 1 : 0;
    const left = view.x0 + mark.startAt[i] * view.kx;
    const width = Math.max(1, view.x0 + mark.endAt[i] * view.kx - left);
    const thick = Math.min(18, tall - gap);
    return { left, width, top: view.box.top + (mark.lane[i] + 0.5) * tall - thick / 2, height: thick };
}

function paintSpans(context, mark, view, colours) {
    const { left, width } = view.box;
    // Up to where each lane is painted: what is less than a pixel long is often covered.
    const done = new Map();
    context.fillStyle = colours[mark.hue];
    for (let i = 0; i < mark.startAt.length; i++) {
        const box = spanBox(mark, view, i);
        const right = box.left + box.width;
        if (!(right >= left && box.left <= left + width) || (box.width < 1.5 && done.get(mark.lane[i]) >= right)) {
            continue;
        }
        if (box.width < 1.5) {
            done.set(mark.lane[i], Math.ceil(right));
        }
        const turn = view.x0 + mark.turnAt[i] * view.kx;
        const pale = Number.isFinite(turn) ? Math.min(box.width, Math.max(0, turn - box.left)) : 0;
        // Far outside of the canvas numbers lose their precision.
        const from = Math.max(box.left, left - 10);
        const middle = Math.max(box.left + pale, left - 10);
        const to = Math.min(right - (box.width > 4 ? 1 : 0), left + width + 10);
        context.globalAlpha = 0.4;
        context.fillRect(from, box.top, Math.max(0, Math.min(middle, to) - from), box.height);
        context.globalAlpha = 0.95;
        context.fillRect(middle, box.top, Math.max(0, to - middle), box.height);
    }
    context.globalAlpha = 1;
}

function paintRule(context, mark, view, colours) {
    const { left, top, width, height } = view.box;
    context.strokeStyle = colours[mark.hue];
    context.lineWidth = 1.25;
    context.setLineDash([5, 3]);
    context.beginPath();
    if (mark.side === "x") {
        const x = view.x0 + mark.at * view.kx;
        context.moveTo(x, top);
        context.lineTo(x, top + height);
    } else {
        const y = view.y0 + mark.at * view.ky;
        context.moveTo(left, y);
        context.lineTo(left + width, y);
    }
    context.stroke();
    context.setLineDash([]);
}

const PAINTERS = { points: paintPoints, line: paintLine, step: paintLine, band: paintBand, bars: paintBars,
    spans: paintSpans, rule: paintRule };

function paintMark(context, mark, view, colours) {
    PAINTERS[mark.kind]?.(context, mark, view, colours);
}
