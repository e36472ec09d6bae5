// Unpacks long lists of numbers, which are stored beside their chart as base64 with four bytes per number.

const ABSENT = 0xffffffff;

function bytesOf(text) {
    const letters = atob(text);
    const bytes = new Uint8Array(letters.length);
    for (let i = 0; i < letters.length; i++) {
        bytes[i] = letters.charCodeAt(i);
    }
    return bytes.buffer;
}

function unpackList({ steps, floats, count }) {
    if (count) {
        return Array.from({ length: count.count }, (_, i) => count.first + i);
    }
    if (floats !== undefined) {
        return Float64Array.from(new Float32Array(bytesOf(floats)));
    }
    const { low, step } = steps;
    return Float64Array.from(new Uint32Array(bytesOf(steps.data)), (number) => (number === ABSENT ? NaN : low + step * number));
}

// Puts all unpacked lists back into the chart.
function unpack({ chart, packed }) {
    const lists = [];
    for (const entry of packed) {
        const list = entry.same === undefined ? unpackList(entry) : lists[entry.same];
        lists.push(list);
        chart.panels[entry.panel].marks[entry.mark][entry.list] = list;
    }
    return chart;
}
