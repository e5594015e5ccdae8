"""Arrays of JAX on Fettle: to it, back, and how they share memory."""

import unittest

from both import jax, np  # noqa: I001: it says which platforms there are

import ml_dtypes
from jax import numpy as jnp

DTYPES = (np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.complex64,
          ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4)  # fmt: skip


class Arrays(unittest.TestCase):
    def test_there_is_one_device(self):
        self.assertEqual([device.platform for device in jax.devices()], ["fettle"])
        self.assertEqual(str(jax.devices()[0]), "FettleDevice(id=0)")
        self.assertEqual(jax.devices()[0].default_memory().kind, "device")

    def test_every_type_comes_back(self):
        for dtype in DTYPES:
            for shape in ((), (3,), (2, 3), (0, 3)):
                array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
                back = np.asarray(jax.device_put(array))
                self.assertEqual((back.dtype, back.shape), (array.dtype, array.shape))
                np.testing.assert_array_equal(back, array)

    def test_strides_are_followed(self):
        array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
        for view in (array.T, array[::-1], array[:, ::2], array[..., 1]):
            np.testing.assert_array_equal(np.asarray(jax.device_put(view)), view)

    def test_a_view_outlives_the_array(self):
        array = jax.device_put(np.arange(1000, dtype=np.float32))
        view = np.asarray(array)
        self.assertFalse(view.flags.writeable)
        del array
        np.testing.assert_array_equal(view, np.arange(1000, dtype=np.float32))

    def test_a_deleted_array_is_refused(self):
        array = jax.device_put(np.ones(3, np.float32))
        array.delete()
        self.assertTrue(array.is_deleted())
        with self.assertRaisesRegex(RuntimeError, "deleted"):
            np.asarray(array)

    def test_dlpack_goes_both_ways(self):
        array = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(np.asarray(jnp.asarray(array) + 0), array)

    def test_between_platforms(self):
        array = jax.device_put(np.arange(5.0, dtype=np.float32), jax.devices("cpu")[0])
        moved = jax.device_put(array, jax.devices("fettle")[0])
        self.assertEqual(moved.devices(), {jax.devices("fettle")[0]})
        np.testing.assert_array_equal(np.asarray(moved), np.asarray(array))


if __name__ == "__main__":
    unittest.main()
