// Tables: sorts and filters rows, and shows only the first rows of a long table.

const FEW = 20;

function enrich(box) {
    const body = box.querySelector("tbody");
    const heads = [...box.querySelectorAll("thead th")];
    const given = [...body.rows];
    const state = { all: given.length <= FEW + 5, words: "", column: -1, down: false };
    let sorted = given;
    const more = element("button", { type: "button", class: "more" });
    const count = element("span", { class: "count", role: "status" });

    const refresh = () => {
        const found = state.words === "" ? sorted : sorted.filter((row) => textOf(row).includes(state.words));
        const shown = state.all ? found : found.slice(0, FEW);
        // A call takes at most about 100,000 arguments; a table may have more rows.
        const rows = document.createDocumentFragment();
        shown.forEach((row) => rows.append(row));
        body.replaceChildren(rows);
        box.querySelector("table").classList.add("live");
        more.hidden = given.length <= FEW + 5 || found.length <= FEW;
        more.textContent = state.all ? `Show the first ${FEW}` : `Show all ${fixed(found.length, 0)}`;
        count.textContent = state.words === "" ? "" : `${fixed(found.length, 0)} of ${fixed(given.length, 0)} rows`;
    };

    heads.forEach((head, column) => {
        const button = element("button", { type: "button" });
        button.append(...head.childNodes, element("span", { class: "arrow", "aria-hidden": "true" }));
        head.append(button);
        button.addEventListener("click", () => {
            state.down = state.column === column ? !state.down : false;
            state.column = column;
            heads.forEach((other) => other.removeAttribute("aria-sort"));
            head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
            sorted = sortedBy(given, column, state.down);
            refresh();
        });
    });
    more.addEventListener("click", () => {
        state.all = !state.all;
        refresh();
    });
    if (given.length > FEW + 5) {
        const field = element("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows",
            autocomplete: "off", spellcheck: "false" });
        field.addEventListener("input", () => {
            state.words = field.value.trim().toLowerCase();
            refresh();
        });
        box.querySelector(".scroll").before(element("div", { class: "filter" }, field, count));
        box.querySelector(".scroll").after(more);
    }
    refresh();
}

const texts = new WeakMap();

function textOf(row) {
    if (!texts.has(row)) {
        texts.set(row, [...row.cells].map((cell) => cell.textContent).join("\n").toLowerCase());
    }
    return texts.get(row);
}

// Sorts numbers by value, before text. Absent values come last in both directions.
function sortedBy(rows, column, down) {
    const order = new Intl.Collator("en", { numeric: true });
    const keyed = rows.map((row) => {
        const cell = row.cells[column];
        const key = cell?.dataset.v;
        const absent = !cell || key === "" || cell.className === "absent";
        const value = key === undefined ? NaN : Number(key);
        return { row, absent, value, text: cell?.textContent ?? "" };
    });
    keyed.sort((one, other) => {
        if (one.absent || other.absent) {
            return Number(one.absent) - Number(other.absent);
        }
        const [a, b] = [Number.isNaN(one.value), Number.isNaN(other.value)];
        const before = a || b ? (a && b ? order.compare(one.text, other.text) : Number(a) - Number(b)) : one.value - other.value;
        return down ? -before : before;
    });
    return keyed.map(({ row }) => row);
}
