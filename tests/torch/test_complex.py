"""Complex numbers: pairs of reals inside, complex tensors at the border."""

import unittest

import torch
from fettle_torch import compiled, statistics


class ComplexNumbers(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()
        statistics.reset()

    def same(self, function, *args, **options):
        with torch.no_grad():
            got, wanted = compiled(function, options={"strict": True}, fullgraph=True, **options)(*args), function(*args)
        for one, other in zip(got, wanted):
            self.assertEqual((one.dtype, one.shape, one.stride()), (other.dtype, other.shape, other.stride()))
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        self.assertEqual(statistics.refused, {})
        return got

    def test_arithmetic(self):
        z, w, r = torch.randn(3, 4, dtype=torch.complex64), torch.randn(4, dtype=torch.complex64), torch.randn(3, 4)
        self.same(lambda z, w, r: (z + w, z - 2j, r * z, z * w, z / w, r / z, z / 3, 1j * r, -z, z.conj() * z, 1 - z), z, w, r)
        self.same(lambda z, w, r: (z.abs(), z.angle(), r.angle(), z.exp(), z.log(), z.sgn(), z.reciprocal(), z == w, z != z,
                                   z.sum(0), z.mean(), z @ w, torch.where(r > 0, z, w)), z, w, r)  # fmt: skip

    def test_what_moves_elements(self):
        z = torch.randn(3, 4, dtype=torch.complex64)
        self.same(lambda z: (z.T + 0, z[1:, ::2] * 1, torch.cat([z, z.real + 0j]), z.reshape(2, 6) + 1, torch.stack([z, z]), z.flip(0),
                             z.permute(1, 0) * 2, torch.roll(z, 1, 0), z.expand(2, 3, 4) * 1), z)  # fmt: skip

    def test_borders(self):
        z = torch.randn(5, 3, dtype=torch.complex128)
        self.same(lambda z: (z * 2, torch.view_as_real(z * 1) + 1, z.real * z.imag), z.conj())
        self.same(lambda z: (z * 2, z.to(torch.complex64), z.real.to(torch.complex64) + 1), z.T[::2])

    def test_weights_are_constants(self):
        class Filter(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.randn(9, dtype=torch.complex64))

            def forward(self, x):
                return [torch.fft.irfft(torch.fft.rfft(x) * self.weight, n=16)]

        model = Filter().eval()
        self.same(model, torch.randn(2, 16))

    def test_open_sizes(self):
        self.same(lambda z: (z * z, z.sum(1)), torch.randn(6, 5, dtype=torch.complex64), dynamic=True)

    def test_fourier_transforms(self):
        x, z = torch.randn(3, 5, 12), torch.randn(4, 15, dtype=torch.complex64)
        for norm in ("forward", "backward", "ortho"):
            torch._dynamo.reset()
            self.same(lambda x, z: (torch.fft.rfft(x, norm=norm), torch.fft.fft2(x, norm=norm), torch.fft.ifft(z, dim=0, norm=norm),
                                    torch.fft.irfft(z, n=9, norm=norm), torch.fft.irfft2(z, norm=norm), torch.fft.hfft(z, norm=norm),
                                    torch.fft.rfftn(x, dim=(2, 0), norm=norm), torch.fft.fftn(z, norm=norm)), x, z)  # fmt: skip

    def test_a_long_transform_is_left_to_torch(self):
        with self.assertRaisesRegex(Exception, "a Fourier transform of 4096 points"):
            compiled(lambda x: torch.fft.rfft(x).abs(), options={"strict": True})(torch.randn(4096))


if __name__ == "__main__":
    unittest.main()
