"use strict";

// Creates elements from a name, attributes and children. Text is never parsed as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(made, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
}

// An HTML element.
function element(name, attributes = {}, ...children) {
    return fill(document.createElement(name), attributes, children);
}

// An SVG element.
function drawn(name, attributes = {}, ...children) {
    return fill(document.createElementNS(SVG, name), attributes, children);
}

// The width of a text in the font of the page, in pixels.
const measure = (() => {
    const context = document.createElement("canvas").getContext("2d");
    const known = new Map();
    return (text, size = 12, weight = 400) => {
        const key = `${size} ${weight} ${text}`;
        if (!known.has(key)) {
            context.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
            known.set(key, context.measureText(text).width);
        }
        return known.get(key);
    };
})();

// The text, shortened with … if it is too wide.
function fitted(text, width, size = 12, weight = 400) {
    if (measure(text, size, weight) <= width) {
        return text;
    }
    let letters = [...text];
    letters = letters.slice(0, Math.max(1, Math.floor((letters.length * width) / measure(text, size, weight))));
    while (letters.length > 1 && measure(letters.join("") + "…", size, weight) > width) {
        letters.pop();
    }
    return letters.join("") + "…";
}
