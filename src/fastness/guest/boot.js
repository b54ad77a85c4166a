// What runs inside the JavaScript guest of the WASM tier, before and around user code.
//
// This module is evaluated once while a memory image is made.  Nothing here is a wall: all of it is in the guest's
// hands once user code runs.  It exists to make answers useful: the completion value, errors without our own frames,
// timers, the names that programs expect, and claims about attempts that this guest has no function for.

import * as std from "qjs:std";
import * as os from "qjs:os";
import { encode, uncurry } from "fastness:encode";
import { errorText, format, inspect } from "fastness:inspect";

/** Characters of an encoded value, of a description, of an error's message, and rows of claims, at most. */
const VALUE_CAP = 1 << 20;
const REPR_CAP = 4096;
const MESSAGE_CAP = 2000;
const CLAIMS_CAP = 64;
/** The descriptor on which claims are told as they happen. */
const CLAIMS = 1001;
/** What the cell shared with the host holds: clock origins in milliseconds, how many timers wait, when the next is due. */
const [MONOTONIC, REALTIME, TIMERS, DUE] = [0, 1, 2, 3];

const { parse, stringify } = JSON;
const { isError } = Error;
const { getPrototypeOf } = Object;
const wellFormed = uncurry(String.prototype.toWellFormed);
const slice = uncurry(String.prototype.slice);
const charCodeAt = uncurry(String.prototype.charCodeAt);
const Bytes = Uint8Array;
const writeBytes = os.write;
const puts = uncurry(std.out.puts);
const flush = uncurry(std.out.flush);
const microseconds = os.now;
/** Milliseconds of the monotonic clock. */
const now = () => microseconds() / 1000;
const Internal = InternalError;
const Text = String;
const Buffer = ArrayBuffer;
const then = uncurry(Promise.prototype.then);
const cell = new Float64Array(4);
const RESERVE = 64 << 10;
/** Freed before an error is described, so that there is room to do it when memory ran out. */
let reserve = new Buffer(RESERVE);

function write(file, text) {
  puts(file, wellFormed(text));
  flush(file);
}

const cut = (text, cap) => wellFormed(text.length > cap ? slice(text, 0, cap) + "..." : text);

// Claims.

// By operation and target.  Read back with plain property access only, and written out by hand: the answer must not
// depend on methods that user code can replace, nor on what it may have put on `Object.prototype`.
let claims = { __proto__: null };
let claimed = 0;
let dropped = 0;

function claim(operation, target) {
  target = cut(Text(target), 250);
  const key = operation + "\0" + target;
  if (claims[key]) {
    claims[key].count++;
  } else if (claimed < CLAIMS_CAP) {
    claimed++;
    claims[key] = { __proto__: null, operation, target, count: 1 };
    tell(operation, target);
  } else {
    dropped++;
  }
}

/** Tells a claim at once, as a line of JSON in ASCII: a run that is ended later has no other chance to tell it. */
function tell(operation, target) {
  const line = stringify([operation, target]) + "\n";
  const bytes = new Bytes(line.length);
  for (let i = 0; i < line.length; i++) {
    const code = charCodeAt(line, i);
    bytes[i] = code < 127 ? code : 63;
  }
  writeBytes(CLAIMS, bytes.buffer, 0, line.length);
}

function refusal(operation, target, why) {
  claim(operation, target);
  const error = new Error(why);
  error.code = "ERR_ACCESS_DENIED";
  return error;
}

const refuse = (operation, why) =>
  function (...args) {
    throw refusal(operation, args.length ? args[0] : "", why);
  };

// Timers: due earliest first, ties in the order made.  The host drives them through `tick`.

let timers = [];
let lastTimer = 0;

function addTimer(callback, delay, args, repeat) {
  if (typeof callback !== "function") throw new TypeError("the callback is not a function");
  delay = Number(delay);
  // As in browsers: what is not a delay is none, and one past 2**31 - 1 ms is none either.
  if (!(delay >= 1 && delay <= 0x7fffffff)) delay = 1;
  const timer = { id: ++lastTimer, due: now() + delay, delay, callback, args, repeat };
  insert(timer);
  return timer.id;
}

function insert(timer) {
  let low = 0;
  let high = timers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (timers[middle].due <= timer.due) low = middle + 1;
    else high = middle;
  }
  timers.splice(low, 0, timer);
  tellTimers();
}

function tellTimers() {
  cell[TIMERS] = timers.length;
  cell[DUE] = timers.length ? timers[0].due : 0;
}

function clearTimer(id) {
  const at = timers.findIndex((timer) => timer.id === id);
  if (at >= 0) timers.splice(at, 1);
  tellTimers();
}

/** Wait for the next timer and run it. */
function tick() {
  const timer = timers.shift();
  tellTimers();
  if (timer === undefined) return;
  const wait = timer.due - now();
  if (wait > 0) os.sleep(Math.ceil(wait));
  if (timer.repeat) {
    timer.due = Math.max(now(), timer.due) + timer.delay;
    insert(timer);
  }
  timer.callback(...timer.args);
}

// Around a run.

/** Take over what is particular to this run: arguments, environment, whether a session goes on. */
function begin(text) {
  const head = parse(text);
  if (head.args || head.filename) globalThis.scriptArgs = [head.filename || "<run>", ...(head.args || [])];
  if (head.env) for (const [name, value] of head.env) std.setenv(name, value);
}

/** The payload: `kind`, `fields` as JSON that starts with a comma, and the claims so far. */
function answer(kind, fields) {
  let text = '{"kind":"' + kind + '"' + fields;
  if (claimed) {
    let comma = ',"claims":[';
    for (const key in claims) {
      const { operation, target, count } = claims[key];
      text += comma + '{"operation":' + stringify(operation) + ',"target":' + stringify(target) + ',"count":' + count + "}";
      comma = ",";
    }
    text += '],"claims_dropped":' + dropped;
    claims = { __proto__: null };
    claimed = dropped = 0;
  }
  return text + "}";
}

/** The payload for the completion value in `result`, or a promise of another result where it has to be awaited. */
function done(result) {
  const value = result === undefined ? undefined : result.value;
  if (value === undefined || value === null) return answer("ok", "");
  if (typeof value === "object" && typeof value.then === "function") return settle(value);
  const encoded = encode(value, VALUE_CAP);
  if (encoded !== null) return answer("ok", ',"value":' + encoded);
  // A program may end with any value; a method was asked for one.  What a program's end is kept in has a prototype, in
  // which user code may have put anything.
  if (getPrototypeOf(result) === null && result.unfit) return fail(result.unfit(value));
  return answer("ok", ',"value_repr":' + stringify(cut(inspect(value), REPR_CAP)));
}

async function settle(value) {
  return { __proto__: null, value: await value };
}

/** The payload for what user code threw; its text goes to standard error. */
function fail(error) {
  reserve = null;
  if (error instanceof Internal && error.message === "out of memory") {
    write(std.err, "MemoryError: the run needed more memory than its limit allows\n");
    return answer("exception", ',"error_type":"MemoryError","error_message":"out of memory"');
  }
  let type = "";
  let message = "";
  let shown = "";
  let fields = "";
  try {
    if (isError(error)) {
      const head = errorText(error, false);
      shown = inspect(error);
      message = error.message === undefined ? "" : Text(error.message);
      type = message !== "" ? slice(head, 0, -(message.length + 2)) : head;
      const { errno } = error;
      if (typeof errno === "number" && errno === (errno | 0)) fields = ',"errno":' + errno;
    } else {
      type = error === null ? "null" : typeof error;
      message = typeof error === "string" ? error : inspect(error);
      shown = "Uncaught " + (typeof error === "string" ? error : message);
    }
  } catch {
    type ||= "Error"; // user code in a getter
    shown ||= type;
  }
  fields += ',"error_type":' + stringify(cut(type, 200)) + ',"error_message":' + stringify(cut(message, MESSAGE_CAP));
  try {
    write(std.err, shown + "\n");
  } catch {
    // standard error was closed by user code
  }
  return answer("exception", fields);
}

/** Count a rejected promise as seen. */
function forget(promise) {
  then(promise, undefined, nothing);
  timers = [];
  tellTimers();
  reserve ??= new Buffer(RESERVE);
}

const nothing = () => undefined;

// The console.

let indent = "";
const counts = new Map();
const starts = new Map();

function line(file, text) {
  if (indent) text = indent + text.replaceAll("\n", "\n" + indent);
  write(file, text + "\n");
}

const log = (...args) => line(std.out, format(args));
const warn = (...args) => line(std.err, format(args));

function table(rows) {
  if (typeof rows !== "object" || rows === null) return log(rows);
  const columns = [];
  let plain = false;
  const body = Object.entries(rows).map(([index, row]) => {
    if (typeof row !== "object" || row === null) {
      plain = true;
      return [index, {}, inspect(row, 0)];
    }
    for (const key of Object.keys(row)) if (!columns.includes(key)) columns.push(key);
    return [index, row, ""];
  });
  const titles = ["(index)", ...columns, ...(plain ? ["Values"] : [])];
  const cells = body.map(([index, row, value]) => [
    index, ...columns.map((key) => (key in row ? inspect(row[key], 0) : "")), ...(plain ? [value] : []),
  ]);
  const widths = titles.map((title, i) => Math.max(title.length, ...cells.map((texts) => texts[i].length)) + 2);
  const rule = (left, middle, right) => left + widths.map((width) => "─".repeat(width)).join(middle) + right;
  const show = (texts) => "│" + texts.map((text, i) => (" " + text).padEnd(widths[i])).join("│") + "│";
  const lines = [rule("┌", "┬", "┐"), show(titles), rule("├", "┼", "┤"), ...cells.map(show), rule("└", "┴", "┘")];
  line(std.out, lines.join("\n"));
}

const elapsed = (label) => `${label}: ${(now() - (starts.get(label) ?? now())).toFixed(3)}ms`;

globalThis.console = {
  log,
  info: log,
  debug: log,
  warn,
  error: warn,
  trace: (...args) => warn("Trace: " + format(args)),
  dir: (value, options) => line(std.out, inspect(value, options?.depth === null ? Infinity : (options?.depth ?? 2))),
  table,
  group(...args) {
    if (args.length) log(...args);
    indent += "  ";
  },
  groupCollapsed: (...args) => console.group(...args),
  groupEnd() {
    indent = slice(indent, 2);
  },
  assert: (holds, ...args) => holds || warn("Assertion failed" + (args.length ? ": " + format(args) : "")),
  count(label = "default") {
    counts.set(label, (counts.get(label) ?? 0) + 1);
    log(`${label}: ${counts.get(label)}`);
  },
  countReset: (label = "default") => void counts.delete(label),
  time: (label = "default") => void starts.set(label, now()),
  timeLog: (label = "default", ...args) => log(elapsed(label), ...args),
  timeEnd(label = "default") {
    log(elapsed(label));
    starts.delete(label);
  },
};
globalThis.print = function print(...args) {
  let text = "";
  for (let i = 0; i < args.length; i++) text += (i ? " " : "") + Text(args[i]);
  write(std.out, text + "\n");
};

// Names that programs expect.

const hide = (target, values) => {
  for (const [name, value] of Object.entries(values)) {
    Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: false });
  }
};

const timerNames = {
  setTimeout: (callback, delay, ...args) => addTimer(callback, delay, args, false),
  setInterval: (callback, delay, ...args) => addTimer(callback, delay, args, true),
  clearTimeout: clearTimer,
  clearInterval: clearTimer,
};

const performance = {
  now: () => now() - cell[MONOTONIC],
  get timeOrigin() {
    return cell[REALTIME];
  },
  mark: () => undefined,
  measure: () => undefined,
};

async function fetch(resource) {
  throw refusal("fetch", resource?.url ?? resource, "fetch is not available: this guest has no network");
}

const osNames = {
  ...os,
  ...timerNames,
  exec: refuse("os.exec", "os.exec is not available: this guest has no processes"),
  kill: refuse("os.kill", "os.kill is not available: this guest has no processes"),
  pipe: refuse("os.pipe", "os.pipe is not available: this guest has no processes"),
  Worker: refuse("os.Worker", "os.Worker is not available: this guest has one thread"),
};
const stdNames = {
  ...std,
  popen: refuse("std.popen", "std.popen is not available: this guest has no processes"),
  urlGet: refuse("std.urlGet", "std.urlGet is not available: this guest has no network"),
};
delete globalThis.navigator;
delete globalThis.execArgv;
delete globalThis.argv0;
hide(globalThis, {
  ...timerNames,
  setImmediate: (callback, ...args) => addTimer(callback, 0, args, false),
  clearImmediate: clearTimer,
  performance,
  fetch,
  os: osNames,
  std: stdNames,
  scriptArgs: ["<run>"],
  global: globalThis,
});
os.chdir("/work");

/** For the sibling files that add names: what they share with this one. */
export { hide, osNames, refusal, stdNames };
/** For the host, which fetches these once and then removes the name. */
globalThis.__fastness = { begin, cell, done, fail, forget, tick };
