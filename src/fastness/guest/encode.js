// Plain data to tagged JSON, inside a JavaScript guest.
//
// The host's module of wire values documents the format and restores it; this is the writer alone.  It calls no
// function that user code can replace: all that it needs is taken here, before any of that code runs.  Its limits are
// only there so that the host does not have to refuse the whole answer.

const { bind, call } = Function.prototype;
// `bind` itself may be replaced later, so it is bound now.
export const uncurry = bind.bind(call);

const { isArray } = Array;
const { isInteger, isFinite } = Number;
const { getPrototypeOf, getOwnPropertyDescriptor, is } = Object;
const { ownKeys } = Reflect;
const { stringify } = JSON;
const objectPrototype = Object.prototype;
const arrayPrototype = Array.prototype;
const bytesPrototype = Uint8Array.prototype;
const typedPrototype = getPrototypeOf(bytesPrototype);
const isWellFormed = uncurry(String.prototype.isWellFormed);
const charCodeAt = uncurry(String.prototype.charCodeAt);
const bigToString = uncurry(BigInt.prototype.toString);
const toBase64 = uncurry(bytesPrototype.toBase64);
const subarray = uncurry(typedPrototype.subarray);
const typedLength = uncurry(getOwnPropertyDescriptor(typedPrototype, "length").get);
const typedName = uncurry(getOwnPropertyDescriptor(typedPrototype, Symbol.toStringTag).get);
const Bytes = Uint8Array;
const Text = String;

const EXACT = 2 ** 53;
const BIG_EXACT = 2n ** 53n;
const DEPTH = 200;
const CONTAINERS = 250000;
const NOT_PLAIN = { notPlain: true };

let containers = 0;
let budget = 0;

function take(count, size) {
  // A value that holds one part many times over must be given up before it is written out.
  containers -= count;
  budget -= size;
  if (containers < 0 || budget < 0) throw NOT_PLAIN;
}

/** UTF-8 of any string, a lone surrogate as its three bytes. */
export function generalisedUtf8(text) {
  let bytes = new Bytes(3 * text.length);
  let size = 0;
  for (let i = 0; i < text.length; i++) {
    let code = charCodeAt(text, i);
    if (code >= 0xd800 && code < 0xdc00 && i + 1 < text.length) {
      const low = charCodeAt(text, i + 1);
      if (low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        i++;
      }
    }
    if (code < 0x80) {
      bytes[size++] = code;
      continue;
    }
    if (code < 0x800) {
      bytes[size++] = 0xc0 | (code >> 6);
    } else {
      if (code < 0x10000) {
        bytes[size++] = 0xe0 | (code >> 12);
      } else {
        bytes[size++] = 0xf0 | (code >> 18);
        bytes[size++] = 0x80 | ((code >> 12) & 0x3f);
      }
      bytes[size++] = 0x80 | ((code >> 6) & 0x3f);
    }
    bytes[size++] = 0x80 | (code & 0x3f);
  }
  return subarray(bytes, 0, size);
}

function writeText(text) {
  take(0, text.length);
  if (isWellFormed(text)) return stringify(text);
  take(2, 0);
  return '{"$":["str","' + toBase64(generalisedUtf8(text)) + '"]}';
}

function writeNumber(value) {
  if (isInteger(value) && !is(value, -0)) {
    // Below 2**53 it is an integer to Python as well; above it is a float, which JSON marks by a point or exponent.
    if (value > -EXACT && value < EXACT) return Text(value);
    return value > -1e21 && value < 1e21 ? Text(value) + ".0" : Text(value);
  }
  if (isFinite(value)) return value === 0 ? "-0.0" : Text(value);
  take(2, 0);
  return '{"$":["float","' + (value > 0 ? "inf" : value < 0 ? "-inf" : "nan") + '"]}';
}

function writeArray(value, depth) {
  take(1, 2 * value.length);
  let out = "[";
  for (let i = 0; i < value.length; i++) {
    const slot = getOwnPropertyDescriptor(value, i);
    if (slot !== undefined && !("value" in slot)) throw NOT_PLAIN;
    out += (i ? "," : "") + (slot === undefined ? "null" : write(slot.value, depth + 1));
  }
  return out + "]";
}

function writeObject(value, depth) {
  const keys = ownKeys(value);
  take(1, 2 * keys.length);
  let plain = "{";
  let tagged = '{"$":["dict"';
  let odd = false;
  let comma = "";
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i];
    const slot = getOwnPropertyDescriptor(value, key);
    if (slot === undefined || !slot.enumerable) continue;
    // Reading an accessor would run user code, and a symbol has no text to be a key.
    if (typeof key === "symbol" || !("value" in slot)) throw NOT_PLAIN;
    const name = writeText(key);
    const text = write(slot.value, depth + 1);
    if (!odd && (key === "$" || !isWellFormed(key))) odd = true;
    plain += comma + name + ":" + text;
    tagged += "," + name + "," + text;
    comma = ",";
  }
  if (!odd) return plain + "}";
  take(1, 0);
  return tagged + "]}";
}

function write(value, depth) {
  budget--;
  switch (typeof value) {
    case "undefined":
      return "null";
    case "boolean":
      return value ? "true" : "false";
    case "number":
      return writeNumber(value);
    case "string":
      return writeText(value);
    case "bigint": {
      if (value > -BIG_EXACT && value < BIG_EXACT) return bigToString(value);
      const digits = bigToString(value, 16);
      take(2, digits.length);
      return '{"$":["int","' + digits + '"]}';
    }
    case "object":
      break;
    default:
      throw NOT_PLAIN;
  }
  if (value === null) return "null";
  if (depth >= DEPTH) throw NOT_PLAIN;
  const prototype = getPrototypeOf(value);
  if (isArray(value)) {
    if (prototype !== arrayPrototype) throw NOT_PLAIN;
    return writeArray(value, depth);
  }
  if (prototype === objectPrototype || prototype === null) return writeObject(value, depth);
  if (prototype === bytesPrototype && typedName(value) === "Uint8Array") {
    take(2, typedLength(value));
    return '{"$":["bytes","' + toBase64(value) + '"]}';
  }
  throw NOT_PLAIN;
}

/** The tagged JSON of `value`, or null where it is not plain data, nested too deep or too large. */
export function encode(value, size) {
  containers = CONTAINERS;
  budget = size;
  try {
    const text = write(value, 0);
    return text.length <= size ? text : null;
  } catch {
    return null; // also a fault in a proxy's trap, and memory or stack that ran out
  }
}
