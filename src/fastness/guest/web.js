// Names of the web platform that QuickJS lacks: text encodings and deep copies.

import { generalisedUtf8, uncurry } from "fastness:encode";
import { inspect } from "fastness:inspect";
import { hide } from "fastness:boot";

const { isError } = Error;
const wellFormed = uncurry(String.prototype.toWellFormed);
const Text = String;

class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(text = "") {
    return generalisedUtf8(wellFormed(Text(text)));
  }
}

class TextDecoder {
  #fatal;
  constructor(label = "utf-8", options = {}) {
    if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) throw new RangeError(`the encoding ${label} is not known`);
    this.#fatal = Boolean(options.fatal);
  }
  get encoding() {
    return "utf-8";
  }
  get fatal() {
    return this.#fatal;
  }
  decode(data = new Uint8Array()) {
    const bytes = ArrayBuffer.isView(data)
      ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
      : new Uint8Array(data);
    return decodeUtf8(bytes, this.#fatal);
  }
}

function decodeUtf8(bytes, fatal) {
  const parts = [];
  let codes = [];
  const put = (code) => {
    codes.push(code);
    if (codes.length >= 4096) {
      parts.push(String.fromCodePoint(...codes));
      codes = [];
    }
  };
  let i = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
  while (i < bytes.length) {
    const first = bytes[i++];
    if (first < 0x80) {
      put(first);
      continue;
    }
    let need = first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xf0 && first < 0xf5 ? 3 : 0;
    let code = need ? first & (0x3f >> need) : 0xfffd;
    // The second byte's range keeps out overlong forms, surrogates and what lies past U+10FFFF.
    let low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
    let high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
    let bad = !need;
    while (need-- > 0) {
      if (!(bytes[i] >= low && bytes[i] <= high)) {
        bad = true;
        break;
      }
      code = (code << 6) | (bytes[i++] & 0x3f);
      [low, high] = [0x80, 0xbf];
    }
    if (bad && fatal) throw new TypeError("the data is not valid UTF-8");
    put(bad ? 0xfffd : code);
  }
  parts.push(String.fromCodePoint(...codes));
  return parts.join("");
}

function structuredClone(value) {
  const made = new Map();
  const clone = (item) => {
    if (typeof item === "function" || typeof item === "symbol") {
      throw new DOMException(`${inspect(item)} could not be cloned.`, "DataCloneError");
    }
    if (typeof item !== "object" || item === null) return item;
    if (made.has(item)) return made.get(item);
    const keep = (copy) => (made.set(item, copy), copy);
    if (Array.isArray(item)) {
      const copy = keep(new Array(item.length));
      for (const key of Object.keys(item)) copy[key] = clone(item[key]);
      return copy;
    }
    if (item instanceof Date) return keep(new Date(item));
    if (item instanceof RegExp) return keep(new RegExp(item.source, item.flags));
    if (item instanceof Map) {
      const copy = keep(new Map());
      for (const [key, inner] of item) copy.set(clone(key), clone(inner));
      return copy;
    }
    if (item instanceof Set) {
      const copy = keep(new Set());
      for (const inner of item) copy.add(clone(inner));
      return copy;
    }
    if (item instanceof ArrayBuffer) return keep(item.slice(0));
    if (ArrayBuffer.isView(item)) {
      const buffer = clone(item.buffer);
      const size = item instanceof DataView ? item.byteLength : item.length;
      return keep(new item.constructor(buffer, item.byteOffset, size));
    }
    if (isError(item)) {
      const copy = keep(new (globalThis[item.name] ?? Error)(item.message));
      hide(copy, { stack: item.stack });
      return copy;
    }
    if (item instanceof Promise || item instanceof WeakMap || item instanceof WeakSet || item instanceof WeakRef) {
      throw new DOMException(`${inspect(item)} could not be cloned.`, "DataCloneError");
    }
    const copy = keep({});
    for (const key of Object.keys(item)) copy[key] = clone(item[key]);
    return copy;
  };
  return clone(value);
}

hide(globalThis, { TextEncoder, TextDecoder, structuredClone });
