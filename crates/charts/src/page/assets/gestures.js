// Gestures: mouse, touch and keyboard control a chart.

function listen(chart) {
    const { stage } = chart;
    const fingers = new Map();
    let drag = null;
    let pinch = null;
    let soon;
    const at = (event) => {
        const frame = stage.getBoundingClientRect();
        return [event.clientX - frame.left, event.clientY - frame.top];
    };
    const placeAt = (x) => (x - chart.views[0].x0) / chart.views[0].kx;
    const inPlot = (x) => Math.min(chart.views[0].box.left + chart.views[0].box.width, Math.max(chart.views[0].box.left, x));

    // A click shows a request. In a zoomed chart it waits, because a double click resets the zoom.
    const follow = () => {
        const { request, near } = chart.picked ?? {};
        clearTimeout(soon);
        if (near && request !== undefined) {
            soon = setTimeout(() => chart.showRequest(request), chart.isZoomed ? 250 : 0);
        }
    };

    stage.addEventListener("pointerdown", (event) => {
        fingers.set(event.pointerId, at(event));
        stage.setPointerCapture(event.pointerId);
        if (fingers.size === 2) {
            drag = endDrag(chart);
            pinch = { view: [...chart.view], from: [...fingers.values()].map(([x]) => placeAt(x)) };
        } else if (event.button === 0) {
            drag = { from: at(event) };
        }
    });

    stage.addEventListener("pointermove", (event) => {
        const here = at(event);
        if (fingers.has(event.pointerId)) {
            fingers.set(event.pointerId, here);
        }
        if (pinch && fingers.size === 2) {
            pinched(chart, pinch, [...fingers.values()].map(([x]) => x));
        } else if (drag && chart.canZoom && Math.abs(here[0] - drag.from[0]) > 4) {
            chart.setPicked(null);
            showSelection(chart, inPlot(drag.from[0]), inPlot(here[0]));
        } else {
            hover(chart, ...here);
        }
    });

    stage.addEventListener("pointerup", (event) => {
        fingers.delete(event.pointerId);
        if (pinch) {
            pinch = fingers.size > 0 ? pinch : null;
        } else if (drag) {
            const [here, { from }] = [at(event), drag];
            drag = endDrag(chart);
            if (chart.canZoom && Math.abs(here[0] - from[0]) > 4) {
                const ends = [placeAt(inPlot(from[0])), placeAt(inPlot(here[0]))].sort((one, other) => one - other);
                chart.look(...ends);
            } else {
                hover(chart, ...here);
                follow();
            }
        }
    });

    stage.addEventListener("pointercancel", (event) => {
        fingers.delete(event.pointerId);
        [drag, pinch] = [endDrag(chart), null];
    });
    stage.addEventListener("pointerleave", () => drag ?? chart.setPicked(null));
    stage.addEventListener("dblclick", () => {
        clearTimeout(soon);
        chart.reset();
    });

    // The wheel scrolls the page. With ctrl it zooms; a pinch on a touchpad arrives as wheel with ctrl.
    stage.addEventListener("wheel", (event) => {
        if (event.ctrlKey && chart.canZoom) {
            event.preventDefault();
            chart.scale(2 ** (Math.max(-50, Math.min(50, event.deltaY)) / 50), placeAt(inPlot(at(event)[0])));
        }
    }, { passive: false });

    stage.addEventListener("keydown", (event) => {
        const middle = (chart.view[0] + chart.view[1]) / 2;
        const action = {
            ArrowLeft: () => chart.pan(-0.2),
            ArrowRight: () => chart.pan(0.2),
            "+": () => chart.scale(0.5, middle),
            "=": () => chart.scale(0.5, middle),
            "-": () => chart.scale(2, middle),
            0: () => chart.reset(),
            Escape: () => chart.reset(),
        }[event.key];
        if (action && !event.ctrlKey && !event.metaKey && !event.altKey) {
            event.preventDefault();
            action();
        }
    });
}

function hover(chart, x, y) {
    const number = chart.views.findIndex(({ box }) => x >= box.left - 6 && x <= box.left + box.width + 6
        && y >= box.top - 6 && y <= box.top + box.height + 6);
    const picked = number < 0 ? null : pick(chart, number, chart.views[number], x, y);
    chart.setPicked(picked && { ...picked, number });
}

function showSelection(chart, from, to) {
    chart.over.querySelector(".selection")?.remove();
    const { top } = chart.views[0].box;
    chart.over.append(drawn("rect", { class: "selection", x: Math.min(from, to), y: top, width: Math.abs(to - from),
        height: chart.layout.bottom - top }));
}

function endDrag(chart) {
    chart.over.querySelector(".selection")?.remove();
    return null;
}

// Zooms so that the two positions under the fingers stay under them.
function pinched(chart, { from: [a, b] }, [x, y]) {
    const { box } = chart.views[0];
    if (!chart.canZoom || Math.abs(x - y) < 8 || a === b) {
        return;
    }
    const factor = (a - b) / (x - y);
    if (factor > 0) {
        chart.look(a - (x - box.left) * factor, a + (box.left + box.width - x) * factor);
    }
}
