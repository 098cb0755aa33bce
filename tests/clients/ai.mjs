// `ai` with its OpenAI-compatible provider: what an application made with it asks for. The model is tiny: what it says is not judged.

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, isStepCount, Output, streamObject, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";

const { COXSWAIN_URL: url, COXSWAIN_KEY: apiKey } = process.env;
const provider = createOpenAICompatible({ name: "coxswain", baseURL: `${url}/v1`, apiKey, includeUsage: true, supportsStructuredOutputs: true });
const asked = { model: provider("default"), prompt: "Say something about the sea.", maxOutputTokens: 6, temperature: 0, maxRetries: 0 };
const light = z.object({ state: z.enum(["on", "off"]) });
const switching = { description: "Switches the light.", inputSchema: light };

async function idle() {
  const deadline = performance.now() + 60_000;
  for (;;) {
    const stats = await (await fetch(`${url}/stats`)).json();
    if (stats.running === 0 && stats.waiting === 0) return;
    assert.ok(performance.now() < deadline, "a row is left");
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

test("generateText", async () => {
  const { text, usage, finishReason } = await generateText({ ...asked, system: "Be brief.", seed: 1, stopSequences: ["\0never"] });
  assert.ok(text.length > 0);
  assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0 && usage.outputTokens <= 6);
  assert.ok(["length", "stop"].includes(finishReason), finishReason);
});

test("streamText", async () => {
  const whole = await generateText(asked);
  const streamed = streamText(asked);
  const pieces = [];
  for await (const piece of streamed.textStream) pieces.push(piece);
  assert.ok(pieces.length > 1);
  assert.equal(pieces.join(""), whole.text);
  assert.equal(await streamed.finishReason, whole.finishReason);
  assert.equal((await streamed.usage).outputTokens, whole.usage.outputTokens);
});

test("generateObject and streamObject", async () => {
  const { object } = await generateObject({ ...asked, schema: light, maxOutputTokens: 40 });
  assert.ok(["on", "off"].includes(object.state));
  const streamed = streamObject({ ...asked, schema: light, maxOutputTokens: 40 });
  let last;
  for await (const part of streamed.partialObjectStream) last = part;
  assert.deepEqual(last, object);
  assert.deepEqual(await streamed.object, object);
});

test("an object as generateText's output", async () => {
  const { output } = await generateText({ ...asked, output: Output.object({ schema: light }), maxOutputTokens: 40 });
  assert.ok(["on", "off"].includes(output.state));
});

test("a tool is called, run, and answered", async () => {
  const states = [];
  const run = tool({ ...switching, execute: ({ state }) => (states.push(state), `The light is ${state}.`) });
  const { steps } = await generateText({
    ...asked,
    tools: { run },
    maxOutputTokens: 64,
    stopWhen: isStepCount(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? { type: "tool", toolName: "run" } : "none" }),
  });
  assert.equal(steps.length, 2);
  assert.equal(steps[0].finishReason, "tool-calls");
  assert.ok(states.length > 0 && states.every((state) => ["on", "off"].includes(state)));
  assert.equal(steps[0].toolResults.length, states.length);
});

test("a tool's call is streamed", async () => {
  const streamed = streamText({ ...asked, tools: { light: tool(switching) }, toolChoice: "required", maxOutputTokens: 64 });
  const kinds = new Set();
  for await (const part of streamed.fullStream ?? streamed.stream) kinds.add(part.type);
  for (const kind of ["tool-input-start", "tool-input-delta", "tool-call"]) assert.ok(kinds.has(kind), [...kinds].join());
  const calls = await streamed.toolCalls;
  assert.ok(calls.every((call) => call.toolName === "light" && light.safeParse(call.input).success));
});

test("an abort frees the row", async () => {
  const abort = new AbortController();
  const streamed = streamText({ ...asked, maxOutputTokens: 2000, abortSignal: abort.signal, providerOptions: { coxswain: { ignore_eos: true } } });
  for await (const piece of streamed.textStream) if (piece) break;
  abort.abort();
  await idle();
});

test("refusals", async () => {
  const because = (statusCode) => (error) => error.statusCode === statusCode && JSON.parse(error.responseBody).error.message.length > 0;
  await assert.rejects(generateText({ ...asked, temperature: 3 }), because(400));
  await assert.rejects(generateText({ ...asked, model: provider("gpt-none") }), because(404));
  const stranger = createOpenAICompatible({ name: "coxswain", baseURL: `${url}/v1`, apiKey: "sk-cox-wrong" });
  await assert.rejects(generateText({ ...asked, model: stranger("default") }), because(401));
});
