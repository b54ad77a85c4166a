// What `require` and `import` find inside a JavaScript guest: files, and the few of Node's modules that make sense here.
//
// File functions have the names of Node's; they go through the guest's own libc to the tree in memory.

import * as std from "qjs:std";
import * as os from "qjs:os";
import { format, inspect } from "fastness:inspect";
import { hide, osNames, refusal, stdNames } from "fastness:boot";

/** Modules that start a process or open a socket; naming one is an attempt. */
const REFUSED = {
  child_process: "processes", cluster: "processes", worker_threads: "threads",
  net: "network", http: "network", https: "network", http2: "network", dns: "network", tls: "network", dgram: "network",
};
/** Numbers of WASI preview 1. */
const CODES = {
  2: "EACCES", 8: "EBADF", 20: "EEXIST", 28: "EINVAL", 31: "EISDIR", 32: "ELOOP", 37: "ENAMETOOLONG", 44: "ENOENT",
  51: "ENOSPC", 54: "ENOTDIR", 55: "ENOTEMPTY", 58: "ENOTSUP", 63: "EPERM", 69: "EROFS", 76: "ENOTCAPABLE",
};

function check(errno, call, path) {
  errno = Math.abs(errno);
  if (!errno) return;
  const code = CODES[errno] ?? `E${errno}`;
  const error = new Error(`${code}: ${std.strerror(errno).toLowerCase()}, ${call} '${path}'`);
  throw Object.assign(error, { errno, code, syscall: call, path });
}

const toPath = (path) => {
  if (typeof path !== "string") throw new TypeError("the path must be a string");
  if (path.includes("\0")) throw new TypeError("the path must not contain NUL");
  return path;
};
const encodingOf = (options) => (typeof options === "string" ? options : options?.encoding);

function open(path, flags, call) {
  const fd = os.open(toPath(path), flags, 0o666);
  if (fd < 0) check(fd, call, path);
  return fd;
}

function readBytes(path) {
  // A file of /dev or a directory has no size to go by, so it is read to the end.
  const fd = open(path, os.O_RDONLY, "open");
  try {
    const [status] = os.stat(path);
    let data = new Uint8Array(Math.max(4096, (status?.size ?? 0) + 1));
    let size = 0;
    for (;;) {
      if (size === data.length) {
        const larger = new Uint8Array(2 * data.length);
        larger.set(data);
        data = larger;
      }
      const count = os.read(fd, data.buffer, size, data.length - size);
      if (count < 0) check(count, "read", path);
      if (count <= 0) return data.slice(0, size);
      size += count;
    }
  } finally {
    os.close(fd);
  }
}

function writeAll(path, content, flags) {
  const data = typeof content === "string" ? new TextEncoder().encode(content)
    : ArrayBuffer.isView(content) ? new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
    : content instanceof ArrayBuffer ? new Uint8Array(content) : new TextEncoder().encode(String(content));
  const fd = open(path, flags, "open");
  try {
    for (let at = 0; at < data.length; ) {
      const count = os.write(fd, data.buffer, data.byteOffset + at, data.length - at);
      if (count < 0) check(count, "write", path);
      at += count;
    }
  } finally {
    os.close(fd);
  }
}

class Stats {
  constructor(status) {
    Object.assign(this, status);
    this.mtimeMs = status.mtime;
    for (const name of ["mtime", "ctime", "atime"]) this[name] = new Date(status[name]);
  }
  isFile() {
    return (this.mode & os.S_IFMT) === os.S_IFREG;
  }
  isDirectory() {
    return (this.mode & os.S_IFMT) === os.S_IFDIR;
  }
  isSymbolicLink() {
    return false;
  }
}

function statSync(path, options) {
  const [status, errno] = os.stat(toPath(path));
  if (errno && options?.throwIfNoEntry === false) return undefined;
  check(errno, "stat", path);
  return new Stats(status);
}

const existsSync = (path) => typeof path === "string" && os.stat(path)[1] === 0;
const isFolder = (path) => existsSync(path) && statSync(path).isDirectory();

function mkdirSync(path, options) {
  if (options?.recursive) {
    const parts = toPath(path).split("/");
    for (let i = 1; i < parts.length; i++) {
      const above = parts.slice(0, i).join("/");
      if (above && !existsSync(above)) check(os.mkdir(above, 0o777), "mkdir", above);
    }
    if (isFolder(path)) return;
  }
  check(os.mkdir(toPath(path), 0o777), "mkdir", path);
}

function readdirSync(path, options) {
  const [names, errno] = os.readdir(toPath(path));
  check(errno, "scandir", path);
  const shown = names.filter((name) => name !== "." && name !== "..").sort();
  if (!options?.withFileTypes) return shown;
  return shown.map((name) => {
    const status = statSync(path + "/" + name);
    return { name, parentPath: path, isFile: () => status.isFile(), isDirectory: () => status.isDirectory() };
  });
}

function rmSync(path, options) {
  if (!existsSync(path)) {
    if (options?.force) return;
    check(44, "rm", path);
  }
  if (isFolder(path)) {
    if (!options?.recursive) check(31, "rm", path);
    for (const name of readdirSync(path)) rmSync(path + "/" + name, options);
  }
  check(os.remove(path), "rm", path);
}

const fs = {
  readFileSync(path, options) {
    const encoding = encodingOf(options);
    const data = readBytes(path);
    if (encoding === undefined || encoding === null || encoding === "buffer") return data;
    if (encoding === "base64") return data.toBase64();
    if (encoding === "hex") return data.toHex();
    if (encoding === "latin1" || encoding === "binary") return Array.from(data, (c) => String.fromCharCode(c)).join("");
    const text = new TextDecoder(encoding === "ascii" ? "utf-8" : encoding).decode(data);
    return data[0] === 0xef && data[1] === 0xbb && data[2] === 0xbf ? "\ufeff" + text : text;
  },
  writeFileSync: (path, content, options) =>
    writeAll(path, content, os.O_WRONLY | os.O_CREAT | (options?.flag === "a" ? os.O_APPEND : os.O_TRUNC)),
  appendFileSync: (path, content) => writeAll(path, content, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
  existsSync,
  statSync,
  lstatSync: statSync,
  mkdirSync,
  readdirSync,
  rmSync,
  unlinkSync: (path) => check(os.remove(toPath(path)), "unlink", path),
  rmdirSync: (path) => check(isFolder(path) ? os.remove(path) : 54, "rmdir", path),
  renameSync: (from, to) => check(os.rename(toPath(from), toPath(to)), "rename", from),
  copyFileSync: (from, to) => writeAll(to, readBytes(from), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
  accessSync: (path) => void statSync(path),
};
fs.promises = {};
for (const name of Object.keys(fs)) {
  if (name.endsWith("Sync")) fs.promises[name.slice(0, -4)] = async (...args) => fs[name](...args);
}

const path = {
  sep: "/",
  delimiter: ":",
  normalize(text) {
    const out = [];
    for (const part of text.split("/")) {
      if (part === "..") out.length && out.at(-1) !== ".." ? out.pop() : text[0] === "/" || out.push(part);
      else if (part && part !== ".") out.push(part);
    }
    return (text[0] === "/" ? "/" : "") + out.join("/") || ".";
  },
  join: (...parts) => path.normalize(parts.filter(Boolean).join("/") || "."),
  resolve(...parts) {
    let text = "";
    for (const part of [os.getcwd()[0], ...parts]) text = part[0] === "/" ? part : text + "/" + part;
    return path.normalize(text);
  },
  isAbsolute: (text) => text[0] === "/",
  dirname: (text) => (/^(.*[^/])?\/+[^/]+\/*$/.exec(text) ?? [])[1] ?? (text[0] === "/" ? "/" : "."),
  basename(text, end = "") {
    const name = text.replace(/\/+$/, "").split("/").pop();
    return end && name !== end && name.endsWith(end) ? name.slice(0, -end.length) : name;
  },
  extname: (text) => (/[^./][^/]*?(\.[^./]*)$/.exec(path.basename(text)) ?? [])[1] ?? "",
  relative(from, to) {
    const [a, b] = [from, to].map((text) => path.resolve(text).split("/").filter(Boolean));
    let same = 0;
    while (same < a.length && same < b.length && a[same] === b[same]) same++;
    return [...a.slice(same).fill(".."), ...b.slice(same)].join("/");
  },
};
path.posix = path;

const util = {
  inspect: (value, options) => inspect(value, options?.depth === null ? Infinity : (options?.depth ?? 2)),
  format: (...args) => format(args),
  promisify: (f) => (...args) => new Promise((resolve, reject) => f(...args, (e, v) => (e ? reject(e) : resolve(v)))),
  TextEncoder,
  TextDecoder,
};

const known = { fs, path, util, std: stdNames, os: osNames, "fs/promises": fs.promises };
const loaded = new Map();

function locate(name, folder) {
  const base = path.resolve(folder, name);
  for (const end of ["", ".js", ".cjs", ".json", "/index.js"]) {
    if (existsSync(base + end) && !isFolder(base + end)) return base + end;
  }
  return null;
}

function missing(name) {
  return Object.assign(new Error(`Cannot find module '${name}'`), { code: "MODULE_NOT_FOUND" });
}

/** An error, and a claim, for a module that this guest will not have. */
export function refuseModule(name) {
  return refusal("require", name, `${name} is not available: this guest has no ${REFUSED[name]}`);
}

function makeRequire(folder) {
  return function require(name) {
    const bare = String(name).replace(/^node:/, "");
    if (Object.hasOwn(known, bare)) return known[bare];
    if (Object.hasOwn(REFUSED, bare)) throw refuseModule(bare);
    const file = /^[./]/.test(bare) ? locate(bare, folder) : null;
    if (file === null) throw missing(name);
    if (loaded.has(file)) return loaded.get(file).exports;
    const text = std.loadFile(file);
    const module = { exports: {}, filename: file };
    loaded.set(file, module);
    try {
      if (file.endsWith(".json")) module.exports = JSON.parse(text);
      else {
        const body = std.evalScript(`(function (exports, require, module, __filename, __dirname) {${text}\n})`);
        body(module.exports, makeRequire(path.dirname(file)), module, file, path.dirname(file));
      }
    } catch (error) {
      loaded.delete(file);
      throw error;
    }
    return module.exports;
  };
}

hide(globalThis, { fs, require: makeRequire("/work"), module: { exports: {} }, exports: {} });
globalThis.exports = globalThis.module.exports;

/** What `import` finds under each name: fetched by the sources that the host registers. */
export const importable = known;

const aliases = {};
for (const [name, value] of Object.entries(known)) {
  const names = Object.keys(value).filter((key) => /^[A-Za-z_]\w*$/.test(key) && key !== "default");
  aliases[name] =
    `import { importable } from "fastness:modules"; const it = importable[${JSON.stringify(name)}]; export default it;` +
    names.map((key, i) => `const _${i} = it.${key}; export { _${i} as ${key} };`).join("");
}
const usual = "exec execSync execFile execFileSync spawn spawnSync fork request get createServer connect createConnection lookup Agent Server Socket Worker".split(" ");
for (const name of Object.keys(REFUSED)) {
  aliases[name] =
    `import { refuseModule } from "fastness:modules"; export default null; export let ${usual.join(", ")}; throw refuseModule("${name}");`;
}
for (const name of Object.keys(aliases)) aliases["node:" + name] = aliases[name];
delete aliases["node:std"];
globalThis.__fastness.aliases = JSON.stringify(aliases);
