// The server's API: keys, errors, streams of events.

const KEY = 'linnet.key';

export class ApiError extends Error {
  // status 0: the server could not be reached.
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

function storages() {
  try {
    return [sessionStorage, localStorage];
  } catch {
    return [];
  }
}

let key = storages().map((storage) => storage.getItem(KEY)).find((value) => value) || '';

export const hasKey = () => key !== '';

// Keeps the key for this tab, or for this browser; an empty one is forgotten.
export function setKey(value, isKept) {
  key = value;
  const [tab, browser] = storages();
  tab?.removeItem(KEY);
  browser?.removeItem(KEY);
  if (value !== '') (isKept ? browser : tab)?.setItem(KEY, value);
}

async function explain(response) {
  let message = `The server answered with status ${response.status}.`;
  try {
    const body = await response.json();
    message = body.error?.message || message;
  } catch {
    // not JSON: a proxy, perhaps
  }
  return new ApiError(response.status, message, Number(response.headers.get('Retry-After')) || 0);
}

// A response whose status is good. Throws ApiError, or AbortError where the signal says so.
export async function request(path, options = {}) {
  const headers = {};
  if (key !== '') headers.Authorization = `Bearer ${key}`;
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {method: options.body === undefined ? 'GET' : 'POST', headers,
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      signal: options.signal, cache: 'no-store', credentials: 'omit', redirect: 'error'});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, 'The server cannot be reached.', 0);
  }
  if (!response.ok) throw await explain(response);
  return response;
}

export async function getJson(path, signal) {
  return (await request(path, {signal})).json();
}

// Calls onevent with each object of a stream of server-sent events.
export async function stream(path, body, signal, onevent) {
  const response = await request(path, {body, signal});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '', isDone = false;
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) break;
      rest += value;
      const events = rest.split('\n\n');
      rest = events.pop();
      for (const event of events) isDone = take(event, onevent) || isDone;
    }
  } catch (error) {
    if (error.name === 'AbortError' || error instanceof ApiError) throw error;
    throw new ApiError(0, 'The connection to the server broke.', 0);
  }
  if (!isDone) throw new ApiError(0, 'The answer ended early.', 0);
}

// True at the stream's end.
function take(event, onevent) {
  const data = event.split('\n').filter((line) => line.startsWith('data:'))
      .map((line) => line.slice(5).trim()).join('\n');
  if (data === '') return false;
  if (data === '[DONE]') return true;
  const value = JSON.parse(data);
  if (value.error) throw new ApiError(value.error.code || 500, value.error.message, 0);
  onevent(value);
  return false;
}
