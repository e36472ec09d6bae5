// A chart on the page. It keeps the visible range of x, the hidden series and the marked request, and draws itself.

class Chart {
    constructor(figure, data, showRequest) {
        Object.assign(this, prepareChart(data));
        this.figure = figure;
        this.plot = figure.querySelector(".plot");
        this.showRequest = showRequest;
        this.view = [...this.range];
        this.hidden = new Set();
        this.marked = null;
        this.picked = null;
        this.build();
        new ResizeObserver(() => this.draw()).observe(this.stage);
    }

    get canZoom() {
        return this.x.scale.kind !== "names" && !this.empty;
    }

    // The visible range of x, in values.
    domain() {
        return this.view.map((place) => valueOf(this.x, place));
    }

    get isZoomed() {
        return this.view[0] !== this.range[0] || this.view[1] !== this.range[1];
    }

    zoom(from, to) {
        // Values that are not positive have no position on a logarithmic axis.
        const place = (value, otherwise) => {
            const at = placeOf(this.x, value);
            return Number.isFinite(at) ? at : otherwise;
        };
        this.look(place(Math.min(from, to), this.range[0]), place(Math.max(from, to), this.range[1]));
    }

    reset() {
        this.marked = null;
        this.look(...this.range);
    }

    // Shows the range between two positions, clamped to the whole range.
    look(low, high) {
        if (!this.canZoom) {
            return;
        }
        const [first, last] = this.range;
        // Nine digits of data give a thousand pixels at a millionth of the whole range.
        const least = (last - first) * 1e-6;
        if (high - low < least) {
            [low, high] = [(low + high - least) / 2, (low + high + least) / 2];
        }
        this.view = [Math.max(first, Math.min(low, last - least)), Math.min(last, Math.max(high, first + least))];
        this.setPicked(null);
        this.later();
    }

    // Zooms in or out around a position.
    scale(factor, around) {
        const [low, high] = this.view;
        this.look(around - (around - low) * factor, around + (high - around) * factor);
    }

    pan(part) {
        const [low, high] = this.view;
        const [first, last] = this.range;
        const step = Math.max(first - low, Math.min(last - high, (high - low) * part));
        this.look(low + step, high + step);
    }

    isHidden(mark) {
        if (mark.label) {
            return mark.kind !== "rule" && this.hidden.has(mark.label);
        }
        // A band is hidden with the lines of its colour.
        const lines = mark.kind === "band" ? this.labelled().filter(({ hue }) => hue === mark.hue) : [];
        return lines.length > 0 && lines.every(({ label }) => this.hidden.has(label));
    }

    labelled() {
        return this.panels.flatMap(({ marks }) => marks).filter(({ kind, label }) => kind !== "rule" && label);
    }

    build() {
        this.canvas = element("canvas", { "aria-hidden": "true" });
        this.words = drawn("g");
        this.over = drawn("g");
        this.svg = drawn("svg", { "aria-hidden": "true" }, this.words, this.over);
        this.tooltip = element("div", { class: "tooltip", role: "status", hidden: "" });
        const hint = this.canZoom ? ". Arrow keys move, plus and minus zoom, Escape resets the zoom." : "";
        this.stage = element("div", { class: "stage", role: "img", tabindex: "0", "aria-label": this.title + hint },
            this.canvas, this.svg);
        this.back = element("button", { type: "button", class: "reset", hidden: "" }, "Reset zoom");
        this.back.addEventListener("click", () => this.reset());
        const save = element("button", { type: "button", class: "save", "aria-label": `Download ${this.title} as SVG` }, "↓ SVG");
        save.addEventListener("click", () => saveChart(this));
        if (!this.empty) {
            this.plot.append(element("div", { class: "tools" }, this.back, save), this.legend());
        }
        this.plot.append(element("div", { class: "frame" }, this.stage, this.tooltip));
        listen(this);
    }

    legend() {
        const list = element("ul", { class: "legend" });
        const seen = new Map();
        for (const mark of this.labelled()) {
            if (!seen.has(mark.label)) {
                seen.set(mark.label, mark);
            }
        }
        for (const [label, mark] of seen) {
            const button = element("button", { type: "button", "aria-pressed": "true" }, swatch(mark), label);
            button.addEventListener("click", () => {
                const shown = this.hidden.delete(label);
                if (!shown) {
                    this.hidden.add(label);
                }
                button.setAttribute("aria-pressed", String(shown));
                this.setPicked(null);
                this.later();
            });
            list.append(element("li", {}, button));
        }
        return list;
    }

    // Draws once in the next frame, however many changes there are.
    later() {
        this.pending ??= requestAnimationFrame(() => {
            this.pending = undefined;
            this.draw();
        });
    }

    draw() {
        const width = this.stage.clientWidth;
        if (width < 40) {
            return;
        }
        const ratio = window.devicePixelRatio || 1;
        this.layout = layOut(this, width, this.view);
        const { height } = this.layout;
        this.stage.style.height = `${height}px`;
        // Setting the size of a canvas clears it.
        [this.canvas.width, this.canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
        this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
        this.views = this.panels.map((panel, number) => viewOf(this, panel, this.layout.panels[number].box, this.view));
        const context = this.canvas.getContext("2d");
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        const colours = coloursOf(this.stage);
        if (!this.empty) {
            paintGrid(context, this.views, this.layout, colours);
        }
        this.views.forEach((view, number) => {
            const { left, top, width: wide, height: high } = view.box;
            context.save();
            context.beginPath();
            // Without zoom, points at the edge are not cut. With zoom, nothing is drawn outside the panel.
            const aside = this.isZoomed ? 1 : 5;
            context.rect(left - aside, top - 5, wide + 2 * aside, high + 8);
            context.clip();
            this.paintMarked(context, view, colours);
            this.panels[number].marks.filter((mark) => !this.isHidden(mark))
                .forEach((mark) => paintMark(context, mark, view, colours));
            context.restore();
        });
        this.words.replaceChildren(...(this.empty ? [] : axisWords(this, this.layout, this.views)),
            ...markWords(this, this.layout, this.views));
        this.back.hidden = !this.isZoomed;
        this.refreshMarked();
        this.updateTooltip();
    }

    // Paints the span of the marked request behind all panels.
    paintMarked(context, view, colours) {
        if (this.marked) {
            const { mark, i } = this.marked;
            const from = view.x0 + mark.startAt[i] * view.kx;
            context.globalAlpha = 0.16;
            context.fillStyle = colours.mark;
            context.fillRect(from, view.box.top, Math.max(1, view.x0 + mark.endAt[i] * view.kx - from), view.box.height);
            context.globalAlpha = 1;
        }
    }

    // Finds the span of a request.
    find(request) {
        for (const [number, panel] of this.panels.entries()) {
            for (const mark of panel.marks.filter(({ kind }) => kind === "spans")) {
                const i = mark.requests.indexOf(request);
                if (i >= 0) {
                    return { number, mark, i };
                }
            }
        }
        return null;
    }

    // Zooms to a request, with its length as margin on both sides.
    show({ number, mark, i }) {
        const [start, end] = [mark.startAt[i], mark.endAt[i]];
        const length = end - start || (this.range[1] - this.range[0]) / 1000;
        this.hidden.delete(mark.label);
        this.look(start - length, end + length);
        this.marked = { number, mark, i };
        this.draw();
    }

    refreshMarked() {
        this.over.querySelector(".marked")?.remove();
        if (!this.marked) {
            return;
        }
        const { number, mark, i } = this.marked;
        const view = this.views[number];
        const box = spanBox(mark, view, i);
        const left = Math.max(view.box.left, box.left);
        const right = Math.min(view.box.left + view.box.width, box.left + box.width);
        if (right >= left) {
            this.over.append(drawn("rect", { class: "marked", x: left - 2, y: box.top - 2, width: right - left + 4,
                height: box.height + 4, rx: 3 }));
        }
        this.picked ??= { ...describeSpan(this, view, mark, i), number };
    }

    // Shows the tooltip of the picked mark, or hides it.
    setPicked(picked) {
        this.picked = picked;
        this.updateTooltip();
    }

    updateTooltip() {
        this.over.querySelector(".cross")?.remove();
        this.tooltip.hidden = !this.picked;
        this.stage.classList.toggle("clickable", this.picked?.near === true && this.picked.request !== undefined);
        if (!this.picked) {
            return;
        }
        const { head, series, hue, lines, request, at: [x, y], dot, number } = this.picked;
        const { box } = this.views[number];
        const cross = drawn("g", { class: "cross" });
        if (dot) {
            cross.append(drawn("line", { x1: x, x2: x, y1: this.views[0].box.top, y2: this.layout.bottom }));
            if (y >= box.top && y <= box.top + box.height) {
                cross.append(drawn("circle", { cx: x, cy: y, r: 5, class: hue }));
            }
        }
        this.over.append(cross);
        const rows = lines.flatMap(([name, value, line]) => [
            element("dt", line ? { class: `key ${line}` } : {}, name), element("dd", {}, value)]);
        if (request !== undefined) {
            rows.push(element("dt", {}, "request"), element("dd", {}, String(request)));
        }
        const heads = [head, series].filter((text) => text !== "");
        this.tooltip.replaceChildren(...heads.map((text, at) => element("p", { class: at === 0 ? "head" : "series" }, text)),
            element("dl", {}, ...rows));
        // The tooltip is on the side with space, inside the chart.
        const { offsetWidth: wide, offsetHeight: high } = this.tooltip;
        const room = this.layout.width;
        const left = x + 14 + wide <= room ? x + 14 : x - 14 - wide;
        this.tooltip.style.left = `${Math.max(0, Math.min(room - wide, left))}px`;
        this.tooltip.style.top = `${Math.max(-8, Math.min(this.layout.height - high, y - high / 2))}px`;
    }
}

// The legend symbol of a mark.
function swatch(mark) {
    const svg = drawn("svg", { viewBox: "0 0 18 12", class: `swatch ${mark.hue}`, "aria-hidden": "true" });
    if (mark.kind === "line" || mark.kind === "step") {
        const dash = DASHES[mark.stroke].map((length) => length / 1.3).join(" ");
        svg.append(drawn("path", { d: mark.kind === "step" ? "M1 9h8v-6h8" : "M1 6h16", "stroke-dasharray": dash,
            "stroke-linecap": mark.stroke === "dotted" ? "round" : "butt" }));
    } else if (mark.kind === "points") {
        // Records the canvas calls as an SVG path.
        const path = { d: "", beginPath() {}, closePath() { this.d += "Z"; },
            lineTo(x, y) { this.d += `${this.d ? "L" : "M"}${x} ${y}`; },
            arc(x, y, r) { this.d += `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`; } };
        traceShape(path, shapeOf(mark.hue), 9, 6, 4);
        svg.append(drawn("path", { d: path.d, class: "solid", "fill-rule": "evenodd" }));
    } else {
        svg.append(drawn("rect", { x: 2, y: 2, width: 14, height: 8, class: "solid" }));
    }
    return svg;
}

// The current values of the CSS colours, because a canvas cannot use CSS variables.
function coloursOf(stage) {
    const probe = element("span", { hidden: "" });
    stage.append(probe);
    const colours = {};
    const names = ["muted", "bad", "good", "ink", "grid", "axis", "mark", "paper"];
    for (const name of [...Array.from({ length: 8 }, (_, number) => `series-${number}`), ...names]) {
        probe.style.color = `var(--${name})`;
        colours[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    return colours;
}
