// Values as people want to see them, for `console.log` and for descriptions of what is not plain data.
//
// User code may have replaced methods that are used here; then something else is shown, and nothing is thrown.

import { uncurry } from "fastness:encode";

const { isArray } = Array;
const { getPrototypeOf, getOwnPropertyDescriptor, is } = Object;
const { ownKeys } = Reflect;
const { stringify } = JSON;
const Text = String;
const arrayPrototype = Array.prototype;
const typedPrototype = getPrototypeOf(Uint8Array.prototype);
const typedLength = uncurry(getOwnPropertyDescriptor(typedPrototype, "length").get);
const typedName = uncurry(getOwnPropertyDescriptor(typedPrototype, Symbol.toStringTag).get);
const bigToString = uncurry(BigInt.prototype.toString);

const join = uncurry(arrayPrototype.join);
const push = uncurry(arrayPrototype.push);
const slice = uncurry(String.prototype.slice);
const replaceAll = uncurry(String.prototype.replaceAll);
const test = uncurry(RegExp.prototype.test);
const functionText = uncurry(Function.prototype.toString);
const dateText = uncurry(Date.prototype.toISOString);
const dateTime = uncurry(Date.prototype.getTime);
const regexpText = uncurry(RegExp.prototype.toString);
const symbolText = uncurry(Symbol.prototype.toString);
const mapSize = uncurry(getOwnPropertyDescriptor(Map.prototype, "size").get);
const setSize = uncurry(getOwnPropertyDescriptor(Set.prototype, "size").get);
const mapEach = uncurry(Map.prototype.forEach);
const setEach = uncurry(Set.prototype.forEach);
const { isError } = Error;
const bufferSize = uncurry(getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength").get);

const NAME = /^[A-Za-z_$][\w$]*$/;
const INDEX = /^(0|[1-9]\d*)$/;
const WIDTH = 72;
const ITEMS = 100;
const LINE = 10000;

function quote(text) {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") ? "`" : "'";
  let inner = slice(stringify(text), 1, -1);
  inner = replaceAll(inner, '\\"', '"');
  return mark + (mark === "'" ? replaceAll(inner, "'", "\\'") : mark === '"' ? replaceAll(inner, '"', '\\"') : inner) + mark;
}

const has = (read, value) => {
  try {
    return read(value);
  } catch {
    return undefined; // not of this class
  }
};

function className(value) {
  for (let at = value, steps = 0; at !== null && steps < 100; at = getPrototypeOf(at), steps++) {
    const slot = getOwnPropertyDescriptor(at, "constructor");
    if (slot && typeof slot.value === "function" && typeof slot.value.name === "string" && slot.value.name !== "") {
      return slot.value.name;
    }
  }
  return null;
}

/** The text of an error as a person wants it: `Name: message`, the stack below, without frames of our own. */
export function errorText(error, frames = true) {
  let name = error.name;
  const own = className(error);
  if (typeof name !== "string" || (name === "Error" && own !== null)) name = own ?? "Error";
  const message = error.message === undefined ? "" : Text(error.message);
  let text = message ? name + ": " + message : Text(name);
  if (frames && typeof error.stack === "string") {
    const lines = error.stack.split("\n").filter((line) => /^\s+at /.test(line) && !line.includes("fastness:"));
    for (const line of lines) text += "\n" + line;
  }
  return text;
}

class Inspector {
  constructor(depth) {
    this.depth = depth;
    this.seen = [];
    this.left = 200000; // characters, so that a huge graph is not unfolded
  }

  show(value, level, top = false) {
    if (this.left < 0) return "...";
    const text = this.value(value, level, top);
    this.left -= text.length;
    return text;
  }

  value(value, level, top) {
    switch (typeof value) {
      case "string":
        return quote(value.length > LINE ? slice(value, 0, LINE) : value) +
          (value.length > LINE ? `... ${value.length - LINE} more characters` : "");
      case "number":
        return is(value, -0) ? "-0" : Text(value);
      case "bigint":
        return bigToString(value) + "n";
      case "symbol":
        return symbolText(value);
      case "undefined":
      case "boolean":
        return Text(value);
    }
    if (value === null) return "null";
    if (this.seen.includes(value)) return "[Circular]";
    this.seen.push(value);
    try {
      return this.object(value, level);
    } finally {
      this.seen.pop();
    }
  }

  object(value, level) {
    const name = className(value);
    const array = isArray(value);
    let head = name === null ? "[Object: null prototype] " : name === "Object" ? "" : name + " ";
    const parts = [];
    let skip = null; // keys that the parts show already
    let open = "{";
    let shut = "}";
    const view = typedName(value);
    const deep = level > this.depth;
    if (typeof value === "function") {
      const source = functionText(value);
      const label = slice(source, 0, 5) === "class" ? "class" : "Function";
      const own = getOwnPropertyDescriptor(value, "name")?.value;
      head = label === "class" ? `[class ${own || "(anonymous)"}]` : own ? `[${label}: ${own}]` : `[${label} (anonymous)]`;
      return this.wrap(head, this.fields(value, level, ["prototype", "length", "name"], parts), "{", "}", level, { bare: true });
    }
    if (isError(value)) {
      let text = errorText(value);
      if (level > 0) text = replaceAll(text, "\n", "\n" + "  ".repeat(level));
      const known = ["stack", "message", "name", "fileName", "lineNumber", "columnNumber"];
      const shown = deep ? [] : this.fields(value, level, known, parts);
      if (getOwnPropertyDescriptor(value, "cause")) push(shown, "[cause]: " + this.show(value.cause, level + 1));
      return this.wrap(text, shown, "{", "}", level, { bare: true });
    }
    const time = has(dateTime, value);
    if (time !== undefined) return is(time, NaN) ? "Invalid Date" : dateText(value);
    if (value instanceof RegExp) return regexpText(value);
    if (value instanceof Number || value instanceof Text || value instanceof Boolean) {
      return `[${name}: ${this.show(value.valueOf(), level + 1)}]`;
    }
    const count = has(mapSize, value) ?? has(setSize, value);
    if (array || view !== undefined) {
      open = "[";
      shut = "]";
      const length = array ? value.length : typedLength(value);
      head = array && name === "Array" ? "" : `${name}(${length}) `;
      if (deep) return "[Array]";
      this.items(value, length, level, parts);
      skip = INDEX;
    } else if (count !== undefined) {
      head = `${name}(${count}) `;
      if (deep) return `[${name}]`;
      const map = has(mapSize, value) !== undefined;
      let n = 0;
      const each = (item, key) => {
        if (n++ < ITEMS) {
          const text = this.show(item, level + 1);
          push(parts, map ? this.show(key, level + 1) + " => " + text : text);
        }
      };
      map ? mapEach(value, each) : setEach(value, each);
      if (n > ITEMS) push(parts, `... ${n - ITEMS} more items`);
    } else if (has(bufferSize, value) !== undefined) {
      push(parts, "byteLength: " + bufferSize(value));
    } else if (deep) {
      return `[${name ?? "Object: null prototype"}]`;
    }
    this.fields(value, level, array ? ["length"] : [], parts, skip);
    return this.wrap(slice(head, 0, -1), parts, open, shut, level, { list: open === "[" });
  }

  items(value, length, level, parts) {
    let holes = 0;
    let shown = 0;
    const flush = () => {
      if (holes) push(parts, `<${holes} empty item${holes > 1 ? "s" : ""}>`);
      holes = 0;
    };
    let i = 0;
    for (; i < length && shown < ITEMS; i++) {
      if (!(i in value)) {
        holes++;
        if (holes > 1e6) {
          holes += length - i - 1;
          i = length;
        }
        continue;
      }
      flush();
      push(parts, this.show(value[i], level + 1));
      shown++;
    }
    flush();
    if (i < length) push(parts, `... ${length - i} more item${length - i > 1 ? "s" : ""}`);
  }

  fields(value, level, hidden, parts, skip = null) {
    let shown = 0;
    for (const key of ownKeys(value)) {
      if (hidden.includes(key) || (skip && typeof key === "string" && test(skip, key))) continue;
      const slot = getOwnPropertyDescriptor(value, key);
      if (!slot || !slot.enumerable) continue;
      if (shown++ >= 1000) {
        push(parts, "...");
        break;
      }
      const name = typeof key === "symbol" ? `[${symbolText(key)}]` : test(NAME, key) ? key : quote(key);
      const text = "value" in slot ? this.show(slot.value, level + 1)
        : slot.get ? (slot.set ? "[Getter/Setter]" : "[Getter]") : "[Setter]";
      push(parts, name + ": " + text);
    }
    return parts;
  }

  wrap(head, parts, open, shut, level, { list = false, bare = false } = {}) {
    const lead = head ? head + " " : "";
    if (!parts.length) return bare ? head : lead + open + shut;
    const indent = "  ".repeat(level);
    let total = lead.length + indent.length + parts.length;
    let multi = false;
    let longest = 0;
    for (const part of parts) {
      total += part.length + 1;
      if (part.includes("\n")) multi = true;
      if (part.length > longest && !part.startsWith("... ")) longest = part.length;
    }
    if (!multi && total <= WIDTH + indent.length && (!list || parts.length <= 6 || total <= WIDTH)) {
      return `${lead}${open} ${join(parts, ", ")} ${shut}`;
    }
    const pad = "\n" + indent + "  ";
    if (list && !multi && parts.length > 6 && longest <= 16) {
      // Short items in columns.
      const columns = Math.max(1, Math.min(16, Math.floor(WIDTH / (longest + 2))));
      const right = parts.every((part) => /^[-\d.]/.test(part));
      const rest = parts.at(-1).startsWith("... ") ? "," + pad + parts.pop() : "";
      let out = "";
      for (let i = 0; i < parts.length; i++) {
        const last = i === parts.length - 1;
        const cell = parts[i] + (last ? "" : ",");
        const end = i % columns === columns - 1 || last;
        const width = longest + 1;
        out += (i % columns ? " " : pad) + (right ? cell.padStart(last ? longest : width) : end ? cell : cell.padEnd(width));
      }
      return `${lead}${open}${out}${rest}\n${indent}${shut}`;
    }
    return `${lead}${open}${pad}${join(parts, "," + pad)}\n${indent}${shut}`;
  }
}

/** `value` as text for people, nested no deeper than `depth`.  Never throws. */
export function inspect(value, depth = 2) {
  try {
    return new Inspector(depth).show(value, 0, true);
  } catch (error) {
    return `<${typeof value} that cannot be shown>`;
  }
}

/** The arguments of one `console.log` as one text: printf-like where the first is a format. */
export function format(args) {
  let at = 0;
  let out = "";
  if (typeof args[0] === "string" && args.length > 1 && args[0].includes("%")) {
    at = 1;
    out = args[0].replace(/%[sdifjoOc%]/g, (mark) => {
      if (mark === "%%") return "%";
      if (at >= args.length) return mark;
      const value = args[at++];
      switch (mark) {
        case "%s":
          return typeof value === "string" ? value : typeof value === "object" && value !== null ? inspect(value, 0) : plain(value);
        case "%d":
          return typeof value === "object" ? "NaN" : typeof value === "bigint" ? `${value}n` : Text(Number(value));
        case "%i":
          return typeof value === "object" ? "NaN" : Text(parseInt(value, 10));
        case "%f":
          return Text(parseFloat(value));
        case "%j":
          return stringify(value) ?? "undefined";
        case "%c":
          return "";
        default:
          return inspect(value, mark === "%o" ? 4 : 2);
      }
    });
    if (at < args.length) out += " ";
  }
  for (let i = at; i < args.length; i++) out += (i > at ? " " : "") + plain(args[i]);
  return out;
}

function plain(value) {
  return typeof value === "string" ? value : inspect(value);
}
