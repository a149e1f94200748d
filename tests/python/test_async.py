"""AsyncLLM: many coroutines, one engine."""

import asyncio
import unittest

from support import DEMO

from linnet import LLM, AsyncEngineArgs, AsyncLLM, LimitError, RequestOutputKind, SamplingParams


class Async(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = AsyncLLM.from_engine_args(AsyncEngineArgs(model=DEMO, threads=1, enforce_eager=True))

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    async def last(self, prompt, **params):
        async for output in self.llm.generate(prompt, SamplingParams(temperature=0, **params)):
            pass
        return output

    def test_coroutines_get_what_a_batch_gets(self):
        prompts = ["Once upon a time", "The cat", "My name is"] * 6

        async def run():
            return await asyncio.gather(*[self.last(p, max_tokens=12) for p in prompts])

        with LLM(DEMO, threads=1) as llm:
            batch = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=12))
        for _ in range(2):  # in two event loops
            self.assertEqual([o.outputs[0].text for o in asyncio.run(run())], [o.outputs[0].text for o in batch])

    def test_deltas(self):
        async def run():
            whole = await self.last("The cat", max_tokens=10)
            params = SamplingParams(temperature=0, max_tokens=10, output_kind=RequestOutputKind.DELTA)
            pieces = [o.outputs[0].text async for o in self.llm.generate("The cat", params)]
            self.assertEqual("".join(pieces), whole.outputs[0].text)
            messages = [{"role": "user", "content": "Hello"}]
            self.assertTrue([o async for o in self.llm.chat(messages, params)])
            self.assertEqual((await self.llm.embed("The cat")).outputs.hidden_size, 256)

        asyncio.run(run())

    def test_more_outputs_than_a_step_holds(self):
        async def abort():
            params = SamplingParams(n=40, max_tokens=None, ignore_eos=True)
            async for output in self.llm.generate("The cat", params, "many"):
                await self.llm.abort("many")
            return output

        whole = asyncio.run(self.last("The cat", n=40, max_tokens=4))
        self.assertTrue(whole.finished)
        self.assertEqual({out.text for out in whole.outputs}, {whole.outputs[0].text})
        self.assertIn("abort", {out.finish_reason for out in asyncio.run(abort()).outputs})

    def test_the_event_loop_runs_meanwhile(self):
        async def run():
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.001)

            ticking = asyncio.create_task(tick())
            await self.last("Once upon a time", max_tokens=600, ignore_eos=True)
            ticking.cancel()
            self.assertGreater(ticks, 3)

        asyncio.run(run())

    def test_abort_and_leaving(self):
        async def run():
            params = SamplingParams(n=8, max_tokens=900, ignore_eos=True)  # seconds of work
            async for output in self.llm.generate("Once upon a time", params, request_id="mine"):
                await self.llm.abort("mine")
            self.assertEqual(output.outputs[0].finish_reason, "abort")
            self.assertLess(len(output.outputs[0].token_ids), 900)
            task = asyncio.create_task(self.last("Once", n=8, max_tokens=900, ignore_eos=True))
            await asyncio.sleep(0.02)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            with self.assertRaises(LimitError):
                await self.last([1] * 5000)
            self.assertEqual(len((await self.last("A", max_tokens=3)).outputs[0].token_ids), 3)

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main()
