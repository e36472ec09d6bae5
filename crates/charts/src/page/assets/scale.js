// Scales: converts values to positions on an axis, and formats ticks and units.
// Positions are linear: a logarithmic axis uses logarithms, and values that are not positive have no position.

function placeOf(axis, value) {
    if (axis.scale.kind === "log") {
        return value > 0 ? Math.log10(value) : NaN;
    }
    return value;
}

function valueOf(axis, place) {
    return axis.scale.kind === "log" ? 10 ** place : place;
}

// Units that take a prefix, with the smallest and the largest factor in use. Nobody writes kiloseconds.
const UNITS = new Map([
    ["s", [1e-9, 1]],
    ["J", [1e-9, 1e9]],
    ["W", [1e-6, 1e9]],
    ["Wh", [1e-6, 1e9]],
    ["B", [1, 1e15]],
    ["Hz", [1, 1e12]],
    ["V", [1e-6, 1e6]],
    ["A", [1e-6, 1e6]],
    ["FLOP", [1, 1e18]],
]);
const PREFIXES = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"],
    [1e-6, "µ"], [1e-9, "n"]];

// The unit with a suitable prefix for a number: `ms` for 0.004 s, `mJ/token` for 0.004 J/token.
function unitFor(unit, size) {
    const range = UNITS.get(unit.split(/[/ ]/, 1)[0]);
    if (!range || !(size > 0)) {
        return { factor: 1, unit };
    }
    const fitting = PREFIXES.filter(([factor]) => factor >= range[0] && factor <= range[1]);
    // 0.9995 ms would be formatted as 1,000 µs; the small factor makes it 1 ms.
    const [factor, prefix] = fitting.find(([candidate]) => size * 1.0005 >= candidate) ?? fitting.at(-1);
    return { factor, unit: prefix + unit };
}

const formats = new Map();

// A number with this many decimals and commas between thousands.
function fixed(value, decimals) {
    if (!formats.has(decimals)) {
        const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
        formats.set(decimals, new Intl.NumberFormat("en-GB", digits));
    }
    return formats.get(decimals).format(value === 0 ? 0 : value).replace("-", "−");
}

// A number with four digits, or more if it has more before the decimal point.
function brief(value) {
    if (value === 0) {
        return "0";
    }
    const power = Math.floor(Math.log10(Math.abs(value)));
    if (power < -5 || power > 14) {
        return value.toExponential(3).replace("e+", "e").replaceAll("-", "−");
    }
    const text = fixed(value, Math.min(20, Math.max(0, 3 - power)));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function withUnit(text, unit) {
    return unit === "" ? text : `${text} ${unit}`;
}

// The formatted value of an axis.
function valueText(axis, value) {
    if (axis.scale.kind === "names") {
        return axis.scale.names[Math.round(value)] ?? brief(value);
    }
    const { factor, unit } = unitFor(axis.unit, Math.abs(value));
    return withUnit(brief(value / factor), unit);
}

// The formatted value with enough digits to distinguish a thousand steps in the visible range.
function momentText(axis, value, span) {
    if (axis.scale.kind === "names" || axis.scale.kind === "log" || !(span > 0)) {
        return valueText(axis, value);
    }
    const { factor, unit } = unitFor(axis.unit, Math.max(Math.abs(value), span / 10));
    const decimals = Math.ceil(-Math.log10(span / factor / 1000));
    return withUnit(fixed(value / factor, Math.min(12, Math.max(0, decimals))), unit);
}

// Round steps: 1, 2 or 5 times a power of ten.
function roundStep(span, count) {
    const raw = span / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(raw));
    const lead = raw / power;
    return (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10) * power;
}

// The ticks between two positions: `{ list: [{ at, text }], unit }`. `unit` belongs in the label of the axis; it is empty
// if each tick has its own unit.
function ticks(axis, low, high, count) {
    const { kind, names } = axis.scale;
    if (kind === "plain" || !(high > low)) {
        return { list: [], unit: "" };
    }
    if (kind === "names") {
        const list = names.map((text, at) => ({ at, text })).filter(({ at }) => at >= low && at <= high);
        return { list, unit: "" };
    }
    if (kind === "log" && high - low >= 0.7) {
        return { list: logTicks(axis, low, high, count), unit: UNITS.has(axis.unit) ? "" : axis.unit };
    }
    const [from, to] = [valueOf(axis, low), valueOf(axis, high)];
    const { factor, unit } = unitFor(axis.unit, Math.max(Math.abs(from), Math.abs(to)));
    const step = roundStep((to - from) / factor, count);
    const decimals = Math.min(15, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    const list = [];
    const first = Math.ceil(from / factor / step - 1e-9);
    for (let number = first; number * step <= (to / factor) * (1 + 1e-12) + step * 1e-9 && list.length < 200; number++) {
        const value = number * step;
        const tiny = Math.abs(step) < 1e-6 || Math.abs(step) >= 1e12;
        list.push({ at: placeOf(axis, value * factor), text: tiny ? brief(value) : fixed(value, decimals) });
    }
    return { list, unit };
}

function logTicks(axis, low, high, count) {
    const decades = high - low;
    // At least two powers of ten are needed, however narrow the axis is.
    const leads = decades * 3 <= count ? [1, 2, 5] : decades < 2 ? [1, 3] : [1];
    const every = Math.max(1, Math.ceil(decades / Math.max(1, count)));
    const list = [];
    for (let power = Math.floor(low); power <= high; power++) {
        for (const lead of leads) {
            const value = lead * 10 ** power;
            const at = Math.log10(value);
            if (at < low - 1e-9 || at > high + 1e-9 || power % every !== 0) {
                continue;
            }
            list.push({ at, text: UNITS.has(axis.unit) ? valueText(axis, value) : brief(value) });
        }
    }
    return list;
}
