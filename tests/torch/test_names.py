"""docs/torch.md says what each public name and each option is."""

import dataclasses
import pathlib
import re
import unittest

import fettle.torch

PAGE = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs/torch.md").read_text()
DESCRIBED = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.M))


class Names(unittest.TestCase):
    def test_each_name_is_described(self):
        self.assertEqual(set(fettle.torch.__all__) - DESCRIBED, set())
        for name in fettle.torch.__all__:
            self.assertTrue(getattr(fettle.torch, name).__doc__, name)

    def test_each_option_is_described(self):
        options = {field.name for field in dataclasses.fields(fettle.torch.Options)}
        self.assertEqual(options - DESCRIBED, set())
        for option in options:
            self.assertIn(f"{option}:", fettle.torch.Options.__doc__)

    def test_an_unknown_operator_is_an_error_if_asked_for(self):
        import torch

        zeta = torch.compile(lambda x: torch.special.zeta(x + 2, 1), backend="fettle", options={"strict": True})
        with self.assertRaises(Exception) as raised:
            zeta(torch.ones(2))
        causes, error = [], raised.exception
        while error:
            causes.append(error)
            error = error.__cause__ or getattr(error, "inner_exception", None)
        self.assertTrue(any(isinstance(cause, fettle.torch.Unsupported) for cause in causes), causes)
        self.assertIn("zeta", str(raised.exception))

    def test_what_is_no_option_is_refused(self):
        import torch

        with self.assertRaisesRegex(Exception, "speed"):
            torch.compile(lambda x: x + 1, backend="fettle", options={"speed": 9})(torch.ones(2))


if __name__ == "__main__":
    unittest.main()
