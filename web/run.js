// One answer on its way: the request, what has come of it, and its times.
import {stream} from './api.js';
import {toApi} from './conversation.js';
import {requestFields} from './settings.js';
import {compact} from './tokens.js';

export class Run {
  // `message` is the assistant's, empty; onchange comes after each event.
  constructor(conversation, message, model, onchange) {
    this.conversation = conversation;
    this.message = message;
    this.onchange = onchange;
    this.controller = new AbortController();
    // before the server's models are known it takes its own
    this.body = {...(model === '' ? null : {model}), messages: toApi(conversation, message.parent), stream: true,
      stream_options: {include_usage: true, continuous_usage_stats: true}, ...requestFields()};
    this.begin = performance.now();
    this.first = 0;
  }

  stop() {
    this.controller.abort();
  }

  // Resolves at the end, also where the answer was stopped; throws ApiError.
  async run() {
    const {message} = this;
    message.isRunning = true;
    message.model = this.body.model || '';
    try {
      await stream('/v1/chat/completions', this.body, this.controller.signal, (event) => this.take(event));
    } catch (error) {
      if (error.name !== 'AbortError') throw error;
      message.finish = 'stopped';
    } finally {
      message.isRunning = false;
      this.countTime();
    }
  }

  take(event) {
    const {message} = this;
    const choice = event.choices?.[0];
    if (message.model === '' && typeof event.model === 'string') message.model = event.model;
    if (event.usage) message.stats = {...message.stats, tokens: event.usage.completion_tokens, prompt: event.usage.prompt_tokens};
    if (choice) {
      const delta = choice.delta || {};
      if (this.first === 0 && (delta.content || delta.reasoning_content || delta.tool_calls)) {
        this.first = performance.now();
        this.firstTokens = event.usage?.completion_tokens || 1;
      }
      if (delta.reasoning_content) message.reasoning = (message.reasoning || '') + delta.reasoning_content;
      if (delta.content) {
        if (message.reasoning && !message.thought) message.thought = (performance.now() - this.begin) / 1000;
        message.content += delta.content;
      }
      for (const call of delta.tool_calls || []) this.takeCall(call);
      for (const entry of choice.logprobs?.content || []) (message.tokens ||= []).push(compact(entry));
      if (choice.finish_reason) message.finish = choice.finish_reason;
    }
    this.countTime();
    this.onchange(this);
  }

  takeCall(delta) {
    const calls = (this.message.toolCalls ||= []);
    const at = Number.isInteger(delta.index) && delta.index >= 0 && delta.index < 128 ? delta.index : 0;
    while (calls.length <= at) calls.push({id: '', name: '', arguments: ''});
    if (delta.id) calls[at].id = delta.id;
    calls[at].name += delta.function?.name || '';
    calls[at].arguments += delta.function?.arguments || '';
  }

  // Tokens per second from the first ones on, once there is time to measure.
  countTime() {
    const {message} = this;
    if (this.first === 0 || !message.stats?.tokens) return;
    const seconds = (performance.now() - this.first) / 1000;
    const tokens = message.stats.tokens - this.firstTokens;
    if (!message.isRunning && this.isCounted) return;
    this.isCounted = !message.isRunning;
    message.stats.first = (this.first - this.begin) / 1000;
    message.stats.rate = seconds > 0.02 && tokens > 0 ? tokens / seconds : 0;
  }
}
