// Paints bars, spans and rules on a canvas, and calls the painter of each mark.

// The thickness of a bar in pixels. Bars of names have gaps between them, bars of a histogram touch.
function barWidth(mark, view) {
    const slot = mark.gap * Math.abs(mark.flat ? view.ky : view.kx);
    return view.apart ? Math.min(44, (slot * 0.72) / mark.among) - (mark.among > 1 ? 1 : 0) : Math.max(1, slot - (slot > 4 ? 1 : 0));
}

// The offset of a bar from its position, if several bars share the position.
function barShift(mark, view) {
    return view.apart ? (mark.order - (mark.among - 1) / 2) * (barWidth(mark, view) + 1) : 0;
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
    // Overlapping histograms must both be visible.
    context.globalAlpha = mark.among > 1 && !view.apart ? 0.6 : 1;
    for (let i = 0; i < mark.xAt.length; i++) {
        const box = barBox(mark, view, i);
        if (box) {
            context.fillRect(box.left, box.top, box.width, box.height);
        }
    }
    context.globalAlpha = 1;
    // An outline in the background colour separates a whisker from its bar.
    paintWhiskers(context, mark, view, colours.paper, mark.flat, 3);
    paintWhiskers(context, mark, view, colours.ink, mark.flat);
}

// The rectangle of a span, in pixels.
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
    // How far each lane is painted: spans shorter than a pixel are often covered already.
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
        // Clamped, because coordinates far outside the canvas lose precision.
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
