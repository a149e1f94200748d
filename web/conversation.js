// A conversation: a tree of messages, as an edited question or a regenerated answer stands beside the
// one before. `leaf` is the last message of the branch that is shown.

export function createConversation(system) {
  const now = Date.now();
  return {id: `${now.toString(36)}-${crypto.getRandomValues(new Uint32Array(1))[0].toString(36)}`, title: '',
    created: now, updated: now, system: system || '', nodes: {}, leaf: null, nextId: 1};
}

export function addMessage(conversation, parent, message) {
  const id = conversation.nextId++;
  conversation.nodes[id] = {id, parent, ...message};
  conversation.leaf = id;
  conversation.updated = Date.now();
  return conversation.nodes[id];
}

// Messages of the shown branch from the first on; with `upTo`, up to this one.
export function getPath(conversation, upTo = conversation.leaf) {
  const path = [];
  for (let id = upTo; id !== null && id !== undefined; id = conversation.nodes[id]?.parent) {
    if (!conversation.nodes[id] || path.length > 10000) break;
    path.push(conversation.nodes[id]);
  }
  return path.reverse();
}

export function getSiblings(conversation, message) {
  return Object.values(conversation.nodes).filter((node) => node.parent === message.parent)
      .sort((a, b) => a.id - b.id);
}

// Shows the branch through a message, down to its newest end.
export function selectBranch(conversation, id) {
  for (;;) {
    const children = Object.values(conversation.nodes).filter((node) => node.parent === id);
    if (children.length === 0) break;
    id = Math.max(...children.map((node) => node.id));
  }
  conversation.leaf = id;
}

export function titleOf(conversation) {
  return conversation.title || 'New chat';
}

export function makeTitle(text) {
  const line = text.trim().split('\n')[0].replace(/\s+/g, ' ');
  return line.length > 48 ? `${line.slice(0, 47).trimEnd()}…` : line;
}

// As the API takes messages.
export function toApi(conversation, upTo) {
  const messages = conversation.system.trim() === '' ? [] : [{role: 'system', content: conversation.system}];
  for (const node of getPath(conversation, upTo)) {
    const message = {role: node.role, content: node.content};
    if (node.toolCalls?.length)
      message.tool_calls = node.toolCalls.map((call) => ({id: call.id, type: 'function',
        function: {name: call.name, arguments: call.arguments}}));
    if (node.role === 'tool') message.tool_call_id = node.toolCallId;
    messages.push(message);
  }
  return messages;
}

export function toMarkdown(conversation) {
  const parts = [`# ${titleOf(conversation)}`];
  if (conversation.system) parts.push(`**System:** ${conversation.system}`);
  for (const node of getPath(conversation)) {
    const who = node.role === 'user' ? 'User' : node.role === 'tool' ? 'Tool' : node.model || 'Assistant';
    parts.push(`## ${who}`, node.content);
    for (const call of node.toolCalls || [])
      parts.push(`Tool call \`${call.name}\`:`, `\`\`\`json\n${call.arguments}\n\`\`\``);
  }
  return `${parts.join('\n\n')}\n`;
}

// A conversation of a file that was exported, or null; unknown fields are left out.
export function fromExport(value) {
  if (typeof value !== 'object' || value === null || typeof value.nodes !== 'object' || value.nodes === null)
    return null;
  const conversation = createConversation(typeof value.system === 'string' ? value.system : '');
  conversation.title = typeof value.title === 'string' ? value.title.slice(0, 200) : '';
  let greatest = 0;
  for (const node of Object.values(value.nodes)) {
    const isGood = node && Number.isInteger(node.id) && node.id > 0 && typeof node.content === 'string' &&
        ['user', 'assistant', 'tool'].includes(node.role) &&
        (node.parent === null || (Number.isInteger(node.parent) && node.parent < node.id));
    if (!isGood) return null;
    const text = (field) => (typeof node[field] === 'string' ? node[field] : '');
    conversation.nodes[node.id] = {id: node.id, parent: node.parent, role: node.role, content: node.content,
      reasoning: text('reasoning'), model: text('model'), toolCallId: text('toolCallId'),
      toolCalls: Array.isArray(node.toolCalls) ? node.toolCalls.map((call) => ({id: String(call?.id),
        name: String(call?.name), arguments: String(call?.arguments)})) : []};
    greatest = Math.max(greatest, node.id);
  }
  if (greatest === 0) return null;
  conversation.nextId = greatest + 1;
  conversation.leaf = conversation.nodes[value.leaf] ? value.leaf : greatest;
  return conversation;
}
