"""What these tests share."""

import torch

from fettle.torch import statistics

__all__ = ["close", "compiled", "flat", "statistics"]
torch.set_num_threads(1)


def compiled(function, **options):
    return torch.compile(function, backend="fettle", **options)


def flat(results):
    """All tensors of what a model gives."""
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, dict):
        results = results.values()
    return [tensor for result in results or [] for tensor in flat(result)]


def close(test, got, wanted, tolerance=1e-4):
    """Equal to `tolerance` of the largest magnitude of each tensor."""
    got, wanted = flat(got), flat(wanted)
    test.assertEqual(len(got), len(wanted))
    for one, other in zip(got, wanted):
        test.assertEqual((one.dtype, one.shape), (other.dtype, other.shape))
        if not other.dtype.is_floating_point:
            test.assertTrue(torch.equal(one, other))
            continue
        finite = other[other.isfinite()]
        scale = finite.abs().max().item() if finite.numel() else 1.0
        atol = tolerance * max(scale, 1e-30) * (100 if other.dtype in (torch.bfloat16, torch.float16) else 1)
        torch.testing.assert_close(one, other, rtol=0, atol=atol, equal_nan=True)
