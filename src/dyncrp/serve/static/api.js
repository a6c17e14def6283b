// Requests to the server that this page came from, and its stream of news. Every address is relative to the page.

const TOKEN = "dyncrp-token";
const PATIENCE = 20_000; // ms for an answer
const SILENCE = 20_000; // ms: the server says something every 2 s, so this long without a word is a lost connection
const LONGEST_WAIT = 15_000; // ms between two attempts to connect
const LOST_AFTER = 30_000; // ms of attempts after which the connection is called lost

/** An answer that is an error: its status (0 if the server cannot be reached) and the server's sentence. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let askForToken = async () => {};
let asking = null;

/** Say how the token is asked for: ask(again) resolves to it. */
export function onToken(ask) {
  askForToken = ask;
}

export function hasToken() {
  return sessionStorage.getItem(TOKEN) !== null;
}

/** Ask once, however many requests were refused; the others wait for the same answer. */
function newToken(refused) {
  if (sessionStorage.getItem(TOKEN) !== refused) return Promise.resolve();
  asking ??= askForToken(refused !== null)
    .then((token) => sessionStorage.setItem(TOKEN, token))
    .finally(() => {
      asking = null;
    });
  return asking;
}

async function send(path, { method = "GET", body, accept = "application/json", signal } = {}) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = { Accept: accept };
    if (token !== null) headers.Authorization = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, { method, headers, body: JSON.stringify(body), signal, cache: "no-store" });
    } catch {
      throw new Refused(0, "The server cannot be reached.");
    }
    if (response.ok) return response;
    if (response.status !== 401) {
      const said = await response.json().catch(() => ({}));
      throw new Refused(response.status, said.error ?? `The server answered ${response.status}.`);
    }
    await newToken(token);
  }
}

/** Return the JSON that the server answers. */
export async function request(path, options = {}) {
  const response = await send(path, { signal: AbortSignal.timeout(PATIENCE), ...options });
  try {
    return await response.json();
  } catch {
    throw new Refused(0, "The answer of the server broke off.");
  }
}

/** Return the path of something of a stream. */
export function ofStream(name, ...parts) {
  return ["streams", name, ...parts].map(encodeURIComponent).join("/");
}

/** Yield {event, data} for each server-sent event of a response; heard() is called for every piece that arrives. */
async function* messages(response, heard) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      heard();
      text = (text + value).replaceAll("\r\n", "\n");
      const blocks = text.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        let event = "message";
        const data = [];
        for (const line of block.split("\n")) {
          if (line.startsWith("event:")) event = line.slice(6).trim();
          else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        }
        if (data.length || event !== "message") yield { event, data: data.length ? data.join("\n") : "null" };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * The connection to what a stream says live, made again whenever it breaks.
 *
 * opened() fetches all that is shown; it is called once the connection stands and before its first message, so that
 * nothing falls between the two. said(event, data) takes a message. state({name, since, error}) is told of
 * every change: name is "connecting", "live", "reconnecting", "lost", "asleep" or "gone" (there is no such stream any
 * more); since: ms, when the connection broke; error: what the server said, if it was reached.
 */
export class Live {
  constructor(stream, { opened, said, state }) {
    this.path = ofStream(stream, "live");
    Object.assign(this, { opened, said, state });
    this.stopped = false;
    this.run();
  }

  stop() {
    this.stopped = true;
    this.abort?.abort();
    this.retry();
  }

  /** Try again now. */
  retry() {
    this.asleep = false;
    this.wake?.();
  }

  /** Give the connection up until retry(): a browser has six for all tabs together. */
  sleep() {
    this.asleep = true;
    this.abort?.abort();
    this.wake?.();
  }

  async run() {
    let since = null;
    let failures = 0;
    this.state({ name: "connecting" });
    while (!this.stopped) {
      if (this.asleep) {
        since = null;
        this.state({ name: "asleep" });
        await new Promise((resolve) => {
          this.wake = resolve;
        });
        continue;
      }
      let watch;
      let said = null;
      try {
        this.abort = new AbortController();
        const heard = () => {
          clearTimeout(watch);
          watch = setTimeout(() => this.abort.abort(), SILENCE);
        };
        heard();
        const response = await send(this.path, { accept: "text/event-stream", signal: this.abort.signal });
        heard();
        await this.opened();
        if (this.stopped) return;
        since = null;
        failures = 0;
        this.state({ name: "live" });
        for await (const { event, data } of messages(response, heard)) {
          if (this.stopped) return;
          this.said(event, JSON.parse(data));
        }
      } catch (error) {
        if (error.status) said = error.message;
        if (!this.stopped && error.status === 404) {
          this.stopped = true;
          this.state({ name: "gone" });
        } else if (!(error instanceof Refused) && !["AbortError", "TypeError", "NetworkError"].includes(error.name)) {
          console.error(error);
        }
      } finally {
        clearTimeout(watch);
        this.abort.abort();
      }
      if (this.stopped) return;
      if (this.asleep) continue;
      since ??= Date.now();
      const wait = Math.min(500 * 2 ** failures, LONGEST_WAIT) * (0.8 + 0.4 * Math.random());
      failures += 1;
      const name = Date.now() - since > LOST_AFTER ? "lost" : "reconnecting";
      this.state({ name, since, error: said });
      await new Promise((resolve) => {
        this.wake = resolve;
        setTimeout(resolve, wait);
      });
    }
  }
}
