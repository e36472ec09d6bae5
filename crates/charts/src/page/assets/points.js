// Paints points and their whiskers on a canvas.

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

// An image of the shape, painted once and copied for each point.
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

// With more points, each is set pixel by pixel: stamping 100,000 points took 300 ms, this takes a few.
const MANY = 4000;

// Paints many points as small discs without shapes, darker where there are more.
function paintCloud(context, mark, view, colour, size) {
    const { left, top, width, height } = view.box;
    const [wide, high] = [Math.ceil(width * view.ratio), Math.ceil(height * view.ratio)];
    const canvas = element("canvas", { width: wide, height: high });
    const inner = canvas.getContext("2d");
    const image = inner.createImageData(wide, high);
    const pixels = new Uint32Array(image.data.buffer);
    const [red, green, blue] = colour.match(/\d+/g).map(Number);
    const hue = (blue << 16) | (green << 8) | red;
    const radius = size * view.ratio;
    const disc = [];
    for (let dy = -Math.ceil(radius); dy <= radius; dy++) {
        for (let dx = -Math.ceil(radius); dx <= radius; dx++) {
            if (dx * dx + dy * dy <= radius * radius) {
                disc.push([dx, dy]);
            }
        }
    }
    for (let i = 0; i < mark.xAt.length; i++) {
        const x = Math.round((view.x0 + mark.xAt[i] * view.kx - left) * view.ratio);
        const y = Math.round((view.y0 + mark.yAt[i] * view.ky - top) * view.ratio);
        if (!(x >= 0 && x < wide && y >= 0 && y < high)) {
            continue;
        }
        for (const [dx, dy] of disc) {
            if (x + dx >= 0 && x + dx < wide && y + dy >= 0 && y + dy < high) {
                const at = (y + dy) * wide + x + dx;
                const alpha = Math.min(255, (pixels[at] >>> 24) + 140);
                pixels[at] = ((alpha << 24) | hue) >>> 0;
            }
        }
    }
    inner.putImageData(image, 0, 0);
    context.drawImage(canvas, left, top, wide / view.ratio, high / view.ratio);
}

function radiusFor(count) {
    return count > 20000 ? 1.5 : count > 2000 ? 2 : count > 300 ? 2.75 : 4;
}

function paintPoints(context, mark, view, colours) {
    // The size depends on the number of visible points: zooming in makes points larger.
    const count = mark.xAt.reduce((sum, place) => sum + (place >= view.low && place <= view.high ? 1 : 0), 0);
    const colour = colours[mark.hue];
    paintWhiskers(context, mark, view, colour, view.flat);
    if (count > MANY) {
        paintCloud(context, mark, view, colour, radiusFor(count));
        return;
    }
    const { canvas, half, size } = stamp(shapeOf(mark.hue), colour, radiusFor(count) * (view.narrow ? 0.8 : 1), view.ratio);
    const { left, top, width, height } = view.box;
    context.globalAlpha = count > 300 ? 0.75 : 0.9;
    for (let i = 0; i < mark.xAt.length; i++) {
        const x = view.x0 + mark.xAt[i] * view.kx;
        const y = view.y0 + mark.yAt[i] * view.ky;
        if (!(x > left - 4 && x < left + width + 4 && y > top - 4 && y < top + height + 4)) {
            continue;
        }
        context.drawImage(canvas, x - half, y - half, size, size);
    }
    context.globalAlpha = 1;
}

function paintWhiskers(context, mark, view, colour, flat, rim = 0) {
    if (mark.lowAt.length === 0) {
        return;
    }
    const cap = mark.lowAt.length > 100 ? 0 : 4;
    context.strokeStyle = colour;
    context.lineWidth = (mark.lowAt.length > 100 ? 0.75 : 1.5) + rim;
    context.lineCap = rim > 0 ? "square" : "butt";
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
