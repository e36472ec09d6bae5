// The page: starts charts and tables, switches the theme, and shows requests by their number.

const charts = new Map();

// Scrolls and zooms to the span of a request. Returns whether a chart has it.
function showRequest(request) {
    for (const chart of charts.values()) {
        const found = chart.find(request);
        if (found) {
            const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
            chart.show(found);
            chart.figure.scrollIntoView({ block: "center", behavior: calm ? "instant" : "smooth" });
            chart.stage.focus({ preventScroll: true });
            history.replaceState(null, "", `#request=${request}`);
            return true;
        }
    }
    return false;
}

function followAddress() {
    const request = /^#request=(\d+)$/.exec(location.hash);
    if (request) {
        showRequest(Number(request[1]));
    }
}

// Saves the current view of a chart as SVG: labels as text, the data as an embedded image.
function saveChart(chart) {
    const { width, height } = chart.layout;
    const style = getComputedStyle(chart.stage);
    const picture = drawn("svg", { xmlns: SVG, width, height: height + 28, viewBox: `0 -28 ${width} ${height + 28}`,
        "font-family": style.fontFamily, "font-size": TICK },
    drawn("rect", { x: 0, y: -28, width, height: height + 28, fill: coloursOf(chart.stage).paper }),
    drawn("image", { href: chart.canvas.toDataURL(), width, height }));
    picture.append(words(4, -10, chart.title, { "font-size": 14, "font-weight": 600, fill: coloursOf(chart.stage).ink }));
    for (const text of chart.words.children) {
        const copy = text.cloneNode(true);
        const shown = getComputedStyle(text);
        copy.removeAttribute("class");
        for (const name of ["fill", "text-anchor", "dominant-baseline", "font-size", "font-weight"]) {
            copy.setAttribute(name, shown.getPropertyValue(name));
        }
        picture.append(copy);
    }
    const address = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(picture)], { type: "image/svg+xml" }));
    const link = element("a", { href: address, download: `${chart.figure.id}.svg` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function drawAll() {
    charts.forEach((chart) => chart.draw());
}

// The theme: light, dark, or that of the system. The choice is not stored.
function startTheme() {
    const root = document.documentElement;
    const button = document.querySelector("button.theme");
    const system = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
    const refresh = () => {
        button.textContent = isDark() ? "☀ Light" : "☾ Dark";
        button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
        button.title = button.getAttribute("aria-label");
        drawAll();
    };
    button.addEventListener("click", () => {
        root.dataset.theme = isDark() ? "light" : "dark";
        refresh();
    });
    system.addEventListener("change", refresh);
    // Prints in the light theme.
    let before;
    window.addEventListener("beforeprint", () => {
        before = root.dataset.theme;
        root.dataset.theme = "light";
        drawAll();
    });
    window.addEventListener("afterprint", () => {
        before === undefined ? delete root.dataset.theme : (root.dataset.theme = before);
        drawAll();
    });
    button.hidden = false;
    refresh();
}

// Marks the current section in the contents.
function startContents() {
    const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
    const seen = new Set();
    const observer = new IntersectionObserver((entries) => {
        entries.forEach(({ target, isIntersecting }) => (isIntersecting ? seen.add(target.id) : seen.delete(target.id)));
        const current = [...links.keys()].find((id) => seen.has(id));
        links.forEach((link, id) => {
            id === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
        });
    }, { rootMargin: "-15% 0px -70% 0px" });
    document.querySelectorAll("main > section").forEach((section) => observer.observe(section));
}

function start() {
    for (const figure of document.querySelectorAll("figure.chart")) {
        const data = document.getElementById(`${figure.id}-data`);
        charts.set(figure.id, new Chart(figure, unpack(JSON.parse(data.textContent)), showRequest));
        // Frees the JSON text of the chart.
        data.remove();
    }
    document.querySelectorAll(".table").forEach(enrich);
    document.addEventListener("click", (event) => {
        const link = event.target.closest?.('a[href^="#request="]');
        if (link && showRequest(Number(link.hash.slice("#request=".length)))) {
            event.preventDefault();
        }
    });
    startTheme();
    startContents();
    followAddress();
    window.addEventListener("hashchange", followAddress);
    // For tests and the developer console.
    const hooks = [...charts].map(([id, chart]) => [id, {
        domain: () => chart.domain(), zoom: (from, to) => chart.zoom(from, to), reset: () => chart.reset() }]);
    window.ergometer = { charts: Object.fromEntries(hooks), showRequest };
}

start();
