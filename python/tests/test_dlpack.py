"""Tensors of other libraries, without a copy."""

import ctypes
import gc
import unittest

import ml_dtypes
import numpy

import headroom
from support import random_inputs, tiny_session

PLAIN = ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "bool"]
STAND_INS = {"bf16": ml_dtypes.bfloat16, "f8_e4m3": ml_dtypes.float8_e4m3fn, "f8_e5m2": ml_dtypes.float8_e5m2}


def dtype_name(kind):
    """The name that headroom has for a dtype of ml_dtypes."""
    return headroom.from_dlpack(numpy.zeros(1, kind)).dtype


def random_array(random, kind=None):
    """Any array that numpy exports: strided, empty, without axes, of up to eight."""
    shape = tuple(int(extent) for extent in random.integers(0, 4, int(random.integers(0, 9))))
    array = numpy.asarray(random.integers(0, 2, shape)).astype(kind or random.choice(PLAIN))
    if array.ndim and random.random() < 0.5:
        array = array.transpose(random.permutation(array.ndim))
    if array.ndim and random.random() < 0.5:
        array = array[tuple(slice(None, None, int(random.choice([-1, 1, 2]))) for _ in range(array.ndim))]
    if random.random() < 0.2:
        array = array.copy()
        array.flags.writeable = False
    return array


class Numpy(unittest.TestCase):
    def test_every_dtype_both_ways_without_a_copy(self):
        for kind in PLAIN + list(STAND_INS.values()):
            array = numpy.arange(6).reshape(2, 3).astype(kind)
            tensor = headroom.from_dlpack(array)
            self.assertEqual(tensor.data, array.ctypes.data)
            self.assertEqual(tensor.nbytes, array.nbytes)
            back = tensor.numpy()
            self.assertEqual(back.dtype, array.dtype)
            self.assertEqual(back.ctypes.data, array.ctypes.data)
            self.assertEqual(back.tobytes(), array.tobytes())
            self.assertEqual(numpy.asarray(tensor.copy()).tobytes(), array.tobytes())

    def test_random_arrays(self):
        random = numpy.random.default_rng(0)
        for _ in range(100_000):
            array = random_array(random)
            tensor = headroom.from_dlpack(array)
            self.assertEqual(tensor.shape, array.shape)
            if array.size:
                self.assertEqual(tensor.data, array.ctypes.data)
                self.assertEqual(tensor.is_dense, array.flags.c_contiguous)
            self.assertEqual(tensor.is_read_only, not array.flags.writeable)
            back = tensor.numpy()
            numpy.testing.assert_array_equal(back, array)
            if array.size:  # else numpy makes memory of its own
                self.assertEqual(back.flags.writeable, array.flags.writeable)
            numpy.testing.assert_array_equal(tensor.copy().numpy(), array)

    def test_views_begin_at_any_element(self):
        array = numpy.arange(20, dtype=numpy.float32)[3:]
        self.assertEqual(headroom.from_dlpack(array).data, array.ctypes.data)

    def test_what_has_no_dtype_here_is_refused(self):
        for kind in ("uint16", "complex64", "int16"):
            with self.assertRaisesRegex(headroom.Error, "expected one of f64"):
                headroom.from_dlpack(numpy.zeros(2, kind))
        with self.assertRaisesRegex(TypeError, "an object with __dlpack__"):
            headroom.from_dlpack("a")

    def test_empty_takes_names_and_types_of_numpy(self):
        for dtype in ("i8", "int8", numpy.int8, numpy.dtype("int8")):
            array = headroom.empty((2, 0, 3), dtype)
            self.assertEqual((array.dtype, array.shape), (numpy.dtype("int8"), (2, 0, 3)))
        array = headroom.empty(3, float)
        self.assertEqual((array.dtype, array.shape, array.ctypes.data % 64), (numpy.dtype("float64"), (3,), 0))
        for dtype in ("f4", "bf16", "complex64", numpy.int16, numpy.dtype(">f4"), None, object()):
            with self.assertRaisesRegex(headroom.UsageError, "^the dtype is .* expected one of f64, f32"):
                headroom.empty((2, 3), dtype)
        for shape in (-1, (2, -3), (-2, -3)):
            with self.assertRaisesRegex(headroom.UsageError, "expected no negative extent"):
                headroom.empty(shape)

    def test_array_converts_only_where_a_copy_is_allowed(self):
        tensor = headroom.from_dlpack(numpy.ones(3, numpy.float32))
        self.assertEqual(numpy.asarray(tensor, numpy.float64).dtype, numpy.float64)
        with self.assertRaisesRegex(ValueError, "takes a copy"):
            tensor.__array__(numpy.dtype("float64"), copy=False)


class Capsules(unittest.TestCase):
    def setUp(self):
        self.array = numpy.arange(4, dtype=numpy.float32)
        self.tensor = headroom.from_dlpack(self.array)

    def capsule_name(self, **options):
        get = ctypes.pythonapi.PyCapsule_GetName
        get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
        return get(self.tensor.__dlpack__(**options))

    def test_versions(self):
        self.assertEqual(self.capsule_name(), b"dltensor")
        self.assertEqual(self.capsule_name(max_version=(0, 8)), b"dltensor")
        self.assertEqual(self.capsule_name(max_version=(1, 0)), b"dltensor_versioned")
        self.assertEqual(self.tensor.__dlpack_device__(), (1, 0))

    def test_a_capsule_is_taken_once(self):
        capsule = self.tensor.__dlpack__(max_version=(1, 0))

        class Once:
            def __dlpack__(self, **options):
                return capsule

            def __dlpack_device__(self):
                return (1, 0)

        self.assertEqual(headroom.from_dlpack(Once()).data, self.array.ctypes.data)
        with self.assertRaisesRegex(headroom.Error, "taken once"):
            headroom.from_dlpack(Once())

    def test_old_producers(self):
        array = self.array

        class Old:
            def __dlpack__(self, stream=None):
                return array.__dlpack__()

            def __dlpack_device__(self):
                return (1, 0)

        self.assertEqual(headroom.from_dlpack(Old()).data, array.ctypes.data)

    def test_refusals_have_reasons(self):
        refused = [
            ({"stream": 1}, "stream 1"),
            ({"dl_device": (2, 0)}, "asked for on cuda:0"),
        ]
        for options, words in refused:
            with self.assertRaisesRegex(BufferError, words):
                self.tensor.__dlpack__(**options)
        self.assertEqual(self.capsule_name(stream=-1), b"dltensor")
        locked = self.array.copy()
        locked.flags.writeable = False
        with self.assertRaisesRegex(BufferError, "read-only"):
            headroom.from_dlpack(locked).__dlpack__()

    def test_copy(self):
        copied = numpy.from_dlpack(self.tensor, copy=True)
        self.assertNotEqual(copied.ctypes.data, self.array.ctypes.data)
        numpy.testing.assert_array_equal(copied, self.array)
        self.assertEqual(numpy.from_dlpack(self.tensor, copy=False).ctypes.data, self.array.ctypes.data)

    def test_memory_lives_as_long_as_anyone_holds_it(self):
        def made():
            return headroom.from_dlpack(numpy.full(1000, 7.0, numpy.float32)).numpy()

        arrays = [made() for _ in range(100)]
        gc.collect()
        self.assertTrue(all((array == 7).all() for array in arrays))

    def test_nothing_leaks(self):
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        def use(count):
            for i in range(count):
                array = numpy.ones(50_000, numpy.float32)
                tensor = headroom.from_dlpack(array)
                tensor.__dlpack__(max_version=(1, 0))  # never taken
                numpy.from_dlpack(tensor)
                try:
                    tensor.__dlpack__(dl_device=(2, 0))
                except BufferError:
                    pass

        use(200)
        before = resident()
        use(2000)  # 400 MB, were they kept
        self.assertLess(resident() - before, 50e6)


class Sessions(unittest.TestCase):
    def test_inputs_are_read_in_place(self):
        session = tiny_session()
        inputs = random_inputs(session)
        expected = session(**inputs).numpy().copy()
        own = headroom.empty(inputs["hidden_states"].shape)
        own[...] = inputs["hidden_states"]
        session.bind_input("hidden_states", own, copy=False)
        self.assertEqual(session.copies, {})
        session.run()
        numpy.testing.assert_array_equal(session.output("sample").numpy(), expected)
        own[...] = 0
        session.run()
        self.assertFalse(numpy.array_equal(session.output("sample").numpy(), expected))
        session.set_input("hidden_states", inputs["hidden_states"])
        session.run()
        numpy.testing.assert_array_equal(session.output("sample").numpy(), expected)

    def test_bound_memory_is_held(self):
        session = tiny_session()
        inputs = random_inputs(session)
        expected = session(**inputs).numpy().copy()
        own = headroom.empty(inputs["hidden_states"].shape)
        own[...] = inputs["hidden_states"]
        session.bind_input("hidden_states", own, copy=False)
        del own
        gc.collect()
        junk = [numpy.full(inputs["hidden_states"].shape, 9, numpy.float32) for _ in range(100)]
        session.run()
        numpy.testing.assert_array_equal(session.output("sample").numpy(), expected)
        del junk

    def test_what_cannot_be_read_in_place_is_copied_and_said(self):
        session = tiny_session()
        inputs = random_inputs(session)
        expected = session(**inputs).numpy().copy()
        strided = numpy.asfortranarray(inputs["hidden_states"])
        session.bind_input("hidden_states", strided)
        self.assertIn("strides", session.copies["hidden_states"])
        session.run()
        numpy.testing.assert_array_equal(session.output("sample").numpy(), expected)
        with self.assertRaisesRegex(headroom.Error, "cannot be read in place: its strides"):
            session.bind_input("hidden_states", strided, copy=False)
        crooked = headroom.empty(inputs["hidden_states"].size + 1)[1:].reshape(inputs["hidden_states"].shape)
        with self.assertRaisesRegex(headroom.Error, "no multiple of 64"):
            session.bind_input("hidden_states", crooked, copy=False)

    def test_outputs_are_written_in_place(self):
        session = tiny_session()
        expected = session(**random_inputs(session)).numpy().copy()
        own = headroom.empty(expected.shape)
        session.bind_output("sample", own)
        session.run()
        numpy.testing.assert_array_equal(own, expected)
        session.unbind_output("sample")
        locked = own.copy()
        locked.flags.writeable = False
        with self.assertRaisesRegex(headroom.Error, "read-only"):
            session.bind_output("sample", locked)

    def test_outputs_are_not_written_by_later_runs(self):
        session = tiny_session()
        first = session(**random_inputs(session, 0))
        bits = first.numpy().tobytes()
        session(**random_inputs(session, 1))
        self.assertEqual(first.numpy().tobytes(), bits)


if __name__ == "__main__":
    unittest.main()
