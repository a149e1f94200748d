"""The structs and numbers of the package are those of linnet.h: a C compiler compares them."""

import ctypes
import os
import shutil
import subprocess
import unittest

from support import ROOT

from linnet import _native as native

# Fields may be added at the end of these, and the package need not know them.
GROWING = ("linnet_model_info", "linnet_chat_options", "linnet_engine_options", "linnet_memory_plan",
           "linnet_engine_stats", "linnet_event", "linnet_request_options", "linnet_adapter")


def asserts():
    yield "#include <stddef.h>\n#include <linnet.h>\n"
    for name, struct in native.STRUCTS.items():
        compare = ">=" if name in GROWING else "=="
        yield f'_Static_assert(sizeof({name}) {compare} {ctypes.sizeof(struct)}, "{name}");\n'
        for field, _ in struct._fields_:
            offset = getattr(struct, field).offset
            yield f'_Static_assert(offsetof({name}, {field}) == {offset}, "{name}.{field}");\n'
            yield (f'_Static_assert(sizeof((({name} *)0)->{field}) == {getattr(struct, field).size}, '
                   f'"size of {name}.{field}");\n')
    for name, value in native.ENUMS.items():
        yield f'_Static_assert({name} == {value}, "{name}");\n'


@unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
class Layout(unittest.TestCase):
    def compile(self, text):
        return subprocess.run(
            ["cc", "-std=c17", "-fsyntax-only", "-I", os.path.join(ROOT, "include"), "-x", "c", "-"],
            input=text, text=True, capture_output=True)

    def test_structs_and_numbers_are_those_of_the_header(self):
        result = self.compile("".join(asserts()))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_difference_would_be_seen(self):
        text = "".join(asserts()).replace("offsetof(linnet_event, token) == 0", "offsetof(linnet_event, token) == 4")
        self.assertIn("linnet_event.token", self.compile(text).stderr)


if __name__ == "__main__":
    unittest.main()
