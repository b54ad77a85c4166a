// What code inside a JavaScript guest finds as `ctx`: functions that ask the host, and nothing for what was not granted.
//
// Nothing here is a wall: whoever runs in the guest may write to the channel itself, and the host judges what arrives.
// It calls no function that user code can replace: all that it needs is taken here, before any of that code runs.

import * as std from "qjs:std";
import { encode, uncurry } from "fastness:encode";
import { hide } from "fastness:boot";

const [CALL, LOG] = [0x43, 0x45];
/** The descriptor on which calls go out. */
const CALLS = 1002;
const ARGUMENTS_CAP = (4 << 20) - 4096;
const DEPTH = 200;
const STEPS = 250000;
const LEVELS = ["debug", "info", "warning", "error"];
const TEXT_CAP = 4096;
/** Operations of this name stand on ctx itself. */
const TOP = "ctx";

const { parse, stringify } = JSON;
const { isArray } = Array;
const { create, defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf, hasOwn } = Object;
const { ownKeys } = Reflect;
const { fromCharCode, fromCodePoint } = String;
const charCodeAt = uncurry(String.prototype.charCodeAt);
const slice = uncurry(String.prototype.slice);
const indexOf = uncurry(String.prototype.indexOf);
const wellFormed = uncurry(String.prototype.toWellFormed);
const push = uncurry(Array.prototype.push);
const shift = uncurry(Array.prototype.shift);
const pop = uncurry(Array.prototype.pop);
const toHex = uncurry(Number.prototype.toString);
const fromBase64 = Uint8Array.fromBase64.bind(Uint8Array);
const mapGet = uncurry(Map.prototype.get);
const mapSet = uncurry(Map.prototype.set);
const mapDelete = uncurry(Map.prototype.delete);
const mapClear = uncurry(Map.prototype.clear);
const objectPrototype = Object.prototype;
const arrayPrototype = Array.prototype;
const bytesPrototype = Uint8Array.prototype;
const typedName = uncurry(getOwnPropertyDescriptor(getPrototypeOf(bytesPrototype), Symbol.toStringTag).get);
const open = std.fdopen;
const puts = uncurry(std.out.puts);
const writeBytes = uncurry(std.out.write);
const flush = uncurry(std.out.flush);
const Later = Promise;
const Failure = Error;
const Wrong = TypeError;
const Big = BigInt;
const Text = String;
const header = new DataView(new ArrayBuffer(12));
const setByte = uncurry(DataView.prototype.setUint8);
const setWord = uncurry(DataView.prototype.setUint32);

let ctx;
let plugin = null;
let file = null;
let most = 16;
let last = 0;
let inFlight = 0;
let waiting = [];
const pending = new Map();

// The channel.

/** A JSON text in ASCII, so that its length is its size. */
function ascii(text) {
  let out = "";
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    if (code < 127) continue;
    out += slice(text, from, i) + "\\u" + slice(toHex(0x10000 + code, 16), 1);
    from = i + 1;
  }
  return from ? out + slice(text, from) : text;
}

function send(kind, head, blob) {
  file ??= open(CALLS, "w");
  head = ascii(head);
  setByte(header, 0, 1);
  setByte(header, 1, kind);
  setWord(header, 4, head.length);
  setWord(header, 8, blob.length);
  writeBytes(file, header.buffer, 0, 12);
  puts(file, head + blob);
  flush(file);
}

function begin(call) {
  inFlight++;
  mapSet(pending, ++last, call);
  const { capability, operation } = call;
  send(CALL, '{"id":' + last + ',"capability":' + stringify(capability) + ',"operation":' + stringify(operation) + "}", call.text);
}

/** Settle the call whose answer is in `text`. */
function answered(text) {
  const { head, value } = parse(text);
  const call = mapGet(pending, head.id);
  if (call === undefined) return;
  mapDelete(pending, head.id);
  inFlight--;
  // The host takes no more at once; so those beyond wait here.
  if (waiting.length) begin(shift(waiting));
  if (hasOwn(head, "code")) call.reject(refused(call.what, head.code, head.message));
  else call.resolve(restore(value));
}

/** A run is over: what it did not wait for is answered to nobody. */
function abandon() {
  mapClear(pending);
  waiting = [];
  inFlight = 0;
}

function refused(what, code, message) {
  const error = new Failure(what + ": " + code + (message ? ": " + message : ""));
  const put = (name, value) => defineProperty(error, name, { __proto__: null, value, writable: true, configurable: true });
  put("name", "Refused");
  put("code", code);
  put("reason", message);
  return error;
}

// Values.

/** What the tagged JSON of the host stands for; `tree` is used up. */
function restore(tree) {
  if (typeof tree !== "object" || tree === null) return tree;
  if (isArray(tree)) {
    for (let i = 0; i < tree.length; i++) tree[i] = restore(tree[i]);
    return tree;
  }
  const keys = ownKeys(tree);
  if (keys.length === 1 && keys[0] === "$") return untag(tree.$);
  // Each is a property of its own, so `__proto__` is a name like others.
  for (let i = 0; i < keys.length; i++) tree[keys[i]] = restore(tree[keys[i]]);
  return tree;
}

function untag(tag) {
  const text = tag[1];
  switch (tag[0]) {
    case "float":
      return text === "nan" ? NaN : text === "inf" ? Infinity : -Infinity;
    case "int":
      return text[0] === "-" ? -Big("0x" + slice(text, 1)) : Big("0x" + text);
    case "bytes":
      return fromBase64(text);
    case "str":
      return fromUtf8(fromBase64(text));
  }
  const out = {};
  for (let i = 1; i < tag.length; i += 2) {
    const value = restore(tag[i + 1]);
    defineProperty(out, restore(tag[i]), { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  }
  return out;
}

/** UTF-8 in which lone surrogates have three bytes of their own. */
function fromUtf8(bytes) {
  let out = "";
  for (let i = 0; i < bytes.length; ) {
    const first = bytes[i];
    const size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    let code = size === 1 ? first : first & (0x7f >> size);
    for (let k = 1; k < size; k++) code = (code << 6) | (bytes[i + k] & 0x3f);
    out += code > 0xffff ? fromCodePoint(code) : fromCharCode(code);
    i += size;
  }
  return out;
}

/** Where in `value` is something that is no plain data, and what it is; null where there is nothing. */
function offending(value) {
  const above = [];
  let steps = STEPS;
  const find = (value, path) => {
    if (steps-- < 0) return [path, "too large"];
    const kind = typeof value;
    if (kind === "function" || kind === "symbol") return [path, "a " + kind];
    if (kind !== "object" || value === null) return null;
    if (above.length >= DEPTH) return [path, "nested too deep"];
    for (let i = 0; i < above.length; i++) if (above[i] === value) return [path, "part of itself"];
    const prototype = getPrototypeOf(value);
    if (prototype === bytesPrototype && typedName(value) === "Uint8Array") return null;
    const list = isArray(value) && prototype === arrayPrototype;
    if (!list && prototype !== objectPrototype && prototype !== null) return [path, "an object of a class"];
    push(above, value);
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      const slot = getOwnPropertyDescriptor(value, key);
      if (slot === undefined || !slot.enumerable) continue;
      if (typeof key === "symbol") return [path, "an object with a symbol for a key"];
      const where = list ? path + "[" + key + "]" : path === "" ? key : path + "." + key;
      const found = hasOwn(slot, "value") ? find(slot.value, where) : [where, "computed when it is read"];
      if (found !== null) return found;
    }
    pop(above);
    return null;
  };
  try {
    return find(value, "");
  } catch {
    return ["an argument", "an object that cannot be looked at"]; // a proxy's trap
  }
}

// Calls.

/** Whether `value` has arguments by their names: an object of its own properties, each called as a parameter is. */
function isNamed(value, parameters) {
  if (typeof value !== "object" || value === null || isArray(value)) return false;
  const prototype = getPrototypeOf(value);
  if (prototype !== objectPrototype && prototype !== null) return false;
  const keys = ownKeys(value);
  for (let i = 0; i < keys.length; i++) if (typeof keys[i] !== "string" || !isParameter(keys[i], parameters)) return false;
  return true;
}

function isParameter(name, parameters) {
  for (let i = 0; i < parameters.length; i++) if (parameters[i][0] === name) return true;
  return false;
}

/** The arguments by name, without those that are undefined. */
function named(values, parameters, what) {
  const given = create(null);
  if (values.length === 1 && isNamed(values[0], parameters)) {
    const keys = ownKeys(values[0]);
    for (let i = 0; i < keys.length; i++) {
      const slot = getOwnPropertyDescriptor(values[0], keys[i]);
      if (!hasOwn(slot, "value")) throw new Wrong(keys[i] + " is computed when it is read, which cannot be given to the host");
      if (slot.value !== undefined) given[keys[i]] = slot.value;
    }
  } else {
    if (values.length > parameters.length) {
      throw new Wrong(what + "() takes " + parameters.length + " arguments, and " + values.length + " were given");
    }
    for (let i = 0; i < values.length; i++) if (values[i] !== undefined) given[parameters[i][0]] = values[i];
  }
  for (let i = 0; i < parameters.length; i++) {
    if (!parameters[i][1] && !hasOwn(given, parameters[i][0])) throw new Wrong(what + "() is missing " + parameters[i][0]);
  }
  return given;
}

function operationOf({ capability, operation, parameters, signature, summary }) {
  const what = capability === TOP ? operation : capability + "." + operation;
  const call = (...values) =>
    new Later((resolve, reject) => {
      const given = named(values, parameters, what);
      let text = encode(given, ARGUMENTS_CAP);
      if (text !== null) text = ascii(text);
      if (text === null || text.length > ARGUMENTS_CAP) {
        const [path, why] = offending(given) ?? ["the arguments", "too large, or nested too deep"];
        throw new Wrong(what + "(): " + path + " is " + why + ", which cannot be given to the host: only plain data can");
      }
      const made = { __proto__: null, capability, operation, what, text, resolve, reject };
      if (inFlight < most) begin(made);
      else push(waiting, made);
    });
  if (signature) defineProperty(call, "signature", { __proto__: null, value: signature });
  if (summary) defineProperty(call, "doc", { __proto__: null, value: summary });
  return defineProperty(call, "name", { __proto__: null, value: operation });
}

function log(level, text) {
  for (let i = 0; i < LEVELS.length; i++) {
    if (level !== LEVELS[i]) continue;
    send(LOG, '{"level":"' + level + '","text":' + stringify(wellFormed(slice(Text(text), 0, TEXT_CAP))) + "}", "");
    return;
  }
  throw new Failure("a level is one of debug, info, warning, error");
}

/** What is granted does not change: neither a holder nor what it holds. */
function frozen(holder) {
  const keys = ownKeys(holder);
  for (let i = 0; i < keys.length; i++) if (typeof holder[keys[i]] === "object") frozen(holder[keys[i]]);
  return freeze(holder);
}

/** Make the ctx of what an invoke tells, once in the life of a guest; its program finds the host's functions as names. */
function grant(text) {
  const told = parse(text);
  plugin = told.plugin;
  if (ctx !== undefined) return;
  most = told.in_flight || most;
  ctx = create(null);
  ctx.log = log;
  const names = create(null);
  for (let i = 0; i < told.granted.length; i++) {
    const { capability, operation } = told.granted[i];
    let holder = capability === TOP ? ctx : (ctx[capability] ??= create(null));
    let last = operation;
    // An operation may have a name of two words: the first is a holder of its own.
    const dot = indexOf(operation, ".");
    if (dot > 0) {
      holder = holder[slice(operation, 0, dot)] ??= create(null);
      last = slice(operation, dot + 1);
    }
    holder[last] = operationOf(told.granted[i]);
    for (let k = 0; k < told.functions.length; k++) if (told.functions[k] === capability) names[operation] = holder[operation];
  }
  frozen(ctx);
  names.ctx = ctx;
  hide(globalThis, names);
}

/** Call the method of the plugin that the invoke named; a promise of what it returns. */
async function run() {
  const { module, method } = plugin;
  const found = await import(module);
  if (!hasOwn(found, method) || typeof found[method] !== "function") {
    throw new Wrong("the module " + module + " exports no function " + method);
  }
  return { __proto__: null, unfit, value: await found[method](ctx, restore(plugin.arguments)) };
}

/** The error of a method whose result cannot be given to the host. */
function unfit(value) {
  const found = offending({ result: value });
  if (found === null) return new Wrong("result is more than 1 MiB as JSON, or has too many lists and objects in it");
  return new Wrong(found[0] + " is " + found[1] + ", which cannot be given to the host: only plain data can");
}

Object.assign(globalThis.__fastness, { abandon, answered, grant, run });
