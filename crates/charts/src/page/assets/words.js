// Labels of rules, lines and points, placed so that no two overlap.

// The labels of all marks.
function markWords(chart, layout, views) {
    const made = [];
    views.forEach((view, number) => {
        const shown = chart.panels[number].marks.filter((mark) => !chart.isHidden(mark));
        const taken = [];
        for (const mark of shown.filter(({ kind, label }) => kind === "rule" && label)) {
            made.push(...ruleWords(mark, view, taken));
        }
        if (layout.direct) {
            made.push(...endWords(shown, view, layout));
        }
        for (const mark of shown.filter(({ kind, names }) => kind === "points" && names.length > 0)) {
            made.push(...nameWords(mark, view, taken));
        }
        if (chart.panels[number].empty && !chart.empty) {
            const { left, top, width, height } = view.box;
            made.push(words(left + width / 2, top + height / 2, "no data", { class: "empty centre middle" }));
        }
    });
    if (chart.empty) {
        made.push(words(layout.width / 2, layout.height / 2, "no data", { class: "empty centre middle" }));
    }
    return made;
}

function overlaps(taken, box) {
    return taken.some((other) => box.left < other.left + other.width && other.left < box.left + box.width
        && box.top < other.top + other.height && other.top < box.top + box.height);
}

function ruleWords(mark, view, taken) {
    const { left, top, width, height } = view.box;
    const long = measure(mark.label, TICK, BOLD);
    if (mark.side === "y") {
        const y = view.y0 + mark.at * view.ky;
        if (!(y >= top - 1 && y <= top + height + 1)) {
            return [];
        }
        const above = y - 5 > top + 12 ? y - 5 : y + 13;
        taken.push({ left: left + width - long - 4, top: above - 11, width: long, height: 14 });
        return [words(left + width - 4, above, fitted(mark.label, width - 8, TICK, BOLD), { class: `rule end ${mark.hue}` })];
    }
    const x = view.x0 + mark.at * view.kx;
    if (!(x >= left - 1 && x <= left + width + 1)) {
        return [];
    }
    const toRight = x + 6 + long <= left + width || x - left < width / 2;
    const box = { left: toRight ? x + 5 : x - 5 - long, top: top + 2, width: long, height: 14 };
    while (overlaps(taken, box) && box.top + 30 < top + height) {
        box.top += 14;
    }
    taken.push(box);
    const room = toRight ? left + width - x : x - left;
    const side = toRight ? "" : " end";
    return [words(toRight ? x + 5 : x - 5, box.top + 11, fitted(mark.label, room, TICK, BOLD), { class: `rule ${mark.hue}${side}` })];
}

// Labels at the ends of lines, moved apart so that they do not overlap.
function endWords(shown, view, layout) {
    const { left, top, width, height } = view.box;
    const ends = [];
    for (const mark of shown.filter(({ kind, label }) => (kind === "line" || kind === "step") && label)) {
        const [from, to] = visible(mark, view);
        for (let i = to - 1; i >= from; i--) {
            const x = view.x0 + mark.xAt[i] * view.kx;
            let y = view.y0 + mark.yAt[i] * view.ky;
            const next = view.y0 + mark.yAt[i + 1] * view.ky;
            if (Number.isFinite(x + y) && x <= left + width + 1) {
                // The label of a line that leaves the panel is where it leaves.
                if (mark.kind === "line" && Number.isFinite(next)) {
                    const after = view.x0 + mark.xAt[i + 1] * view.kx;
                    y += ((next - y) * (left + width - x)) / Math.max(1e-9, after - x);
                }
                const inside = !Number.isFinite(next) && left + width - x > 12;
                ends.push({ mark, x: inside ? x : left + width, inside, y: Math.min(top + height, Math.max(top, y)) });
                break;
            }
        }
    }
    const outside = ends.filter(({ inside }) => !inside).sort((one, other) => one.y - other.y);
    for (let i = 1; i < outside.length; i++) {
        outside[i].y = Math.max(outside[i].y, outside[i - 1].y + 14);
    }
    let limit = top + height + 4;
    for (const end of outside.toReversed()) {
        end.y = Math.min(end.y, limit);
        limit = end.y - 14;
    }
    return ends.map(({ mark, x, y, inside }) => {
        // The label of a line that ends inside the panel is at its end, and may extend to the edge.
        const text = fitted(mark.label, layout.width - x - 8, TICK, BOLD);
        return words(x + 7, inside ? Math.max(y, top + 6) : y, text, { class: `label middle ${mark.hue}` });
    });
}

// Labels beside points, as many as there is space for.
function nameWords(mark, view, taken) {
    const { left, top, width, height } = view.box;
    const inside = [];
    for (let i = 0; i < mark.xAt.length && inside.length <= 80; i++) {
        const [x, y] = [view.x0 + mark.xAt[i] * view.kx, view.y0 + mark.yAt[i] * view.ky];
        if (x >= left && x <= left + width && y >= top && y <= top + height) {
            inside.push([x, y, mark.names[i] ?? ""]);
        }
    }
    if (inside.length > 80) {
        return [];
    }
    inside.forEach(([x, y]) => taken.push({ left: x - 4, top: y - 4, width: 8, height: 8 }));
    const made = [];
    for (const [x, y, name] of inside.filter(([, , name]) => name !== "")) {
        const text = fitted(name, 180);
        const long = measure(text);
        const places = [[x + 8, y - 6], [x - 8 - long, y - 6], [x - long / 2, y - 21], [x - long / 2, y + 9]];
        for (const [at, up] of places) {
            const box = { left: at, top: up, width: long, height: 13 };
            if (at >= left && at + long <= left + width + 8 && up >= top - 6 && !overlaps(taken, box)) {
                taken.push(box);
                made.push(words(at, up + 10, text, { class: "name" }));
                break;
            }
        }
    }
    return made;
}
