// Paints lines, steps and bands on a canvas. The cost depends on the pixels, not on the number of samples.
// A pixel is `origin + position * factor`. `view` holds these: { box, x0, kx, y0, ky, low, high }; low and high are the
// positions at the left and the right edge.

// The index of the first position not less than another one, in a sorted list.
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

// The range of visible entries of a line, plus one entry on each side.
function visible(mark, view) {
    if (!mark.sorted) {
        return [0, mark.xAt.length];
    }
    const from = firstFrom(mark.xAt, view.low) - 1;
    const to = firstFrom(mark.xAt, view.high) + 2;
    return [Math.max(0, from), Math.min(mark.xAt.length, to)];
}

const DASHES = { solid: [], dashed: [7, 4], dotted: [0.1, 4.5] };

function paintLine(context, mark, view, colours) {
    const stepped = mark.kind === "step";
    const [from, to] = visible(mark, view);
    context.strokeStyle = colours[mark.hue];
    context.lineWidth = to - from > 4 * view.box.width ? 1 : 1.75;
    context.setLineDash(DASHES[mark.stroke]);
    if (mark.stroke === "dotted") {
        [context.lineCap, context.lineWidth] = ["round", 2.25];
    }
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
    context.lineCap = "butt";
}

// Traces a line with more samples than pixels. Each column of pixels gets its first, smallest, largest and last value, so
// that no peak is lost and 200,000 samples cost as much as 2,000.
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
    // A few entries per pixel draw the same band as all of them. Each group keeps its extremes.
    const group = Math.max(1, Math.floor((to - from) / (2 * view.box.width)));
    const [upper, lower] = [[], []];
    for (let start = from; start < to; start += group) {
        let [low, high, x] = [Infinity, -Infinity, NaN];
        for (let i = start; i < Math.min(to, start + group); i++) {
            if (Number.isFinite(mark.xAt[i]) && Number.isFinite(mark.highAt[i])) {
                // Values that are not positive are at the bottom of a logarithmic axis.
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
