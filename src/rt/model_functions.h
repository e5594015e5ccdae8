/* Ends what the model was made of, once the last of its contexts is destroyed, too. Null is fine. */
void fettle_rt_close(FettleModel* model);

/* Makes a context of the model. Null on failure; then fettle_rt_error(NULL) says why. For a null pointer, null: what
 * fettle_rt_open has said stays. */
FettleContext* fettle_rt_create_context(FettleModel* model);

/* Cancels and awaits what was begun, and frees the context's memory. Null is fine. */
void fettle_rt_destroy_context(FettleContext* context);

/* Computes outputs[0], outputs[1], … from inputs[0], inputs[1], …, in the order of the info. Returns FETTLE_OK, or a
 * negative FettleStatus; then fettle_rt_error(context) says why. Memory that the caller gives to an output must not
 * overlap any other.
 * Where a run tells how large an output is, and the caller's memory is too small for it, the call fails.
 * An output whose data are null is put where allocate_with says, else into memory that is the context's until its next
 * call. Afterwards each output has its shape, in memory that is the context's until its next call, too. */
int32_t fettle_rt_run(FettleContext* context, const FettleTensor* inputs, FettleTensor* outputs);

/* The same on a thread that the context owns. What is wrong with the arguments is told at once; the array of outputs
 * and all data must stay until fettle_rt_wait has returned, which gives what the call came to. */
int32_t fettle_rt_begin(FettleContext* context, const FettleTensor* inputs, FettleTensor* outputs);
int32_t fettle_rt_wait(FettleContext* context);

/* Ends the call that is under way, if there is one: no kernel is started any more, and the call returns
 * FETTLE_CANCELLED, unless its last kernel had begun. From any thread. */
int32_t fettle_rt_cancel(FettleContext* context);

/* The shapes that outputs will have for inputs of these shapes; data are not looked at. An extent that only a run tells
 * is -1. */
int32_t fettle_rt_output_shapes(FettleContext* context, const FettleTensor* inputs, FettleTensor* outputs);

/* A state, by the name that the info gives it: copied to tensor->data, or, where that is null, where it lies, strided.
 * The tensor gets its shape, whose extent along the axis of growth is the state's length. */
int32_t fettle_rt_get_state(FettleContext* context, const char* name, FettleTensor* tensor);

/* Copies the tensor to the state, which then has its length. Null for the tensor: the state is as in the beginning; null
 * for the name, too: all are. The tensor may be one that another context's fettle_rt_get_state gave.
 * After a call that failed or was cancelled, a state keeps its length; the content of one of fixed shape is undefined. */
int32_t fettle_rt_set_state(FettleContext* context, const char* name, const FettleTensor* tensor);

/* Asks `allocate` for memory of outputs whose data are null, in later calls; null: no more. */
void fettle_rt_allocate_with(FettleContext* context, FettleAllocate allocate, void* user);

/* Calls `hook` after each kernel of later calls; null: no more. */
void fettle_rt_profile(FettleContext* context, FettleKernelHook hook, void* user);

/* Tells `tracer` what later calls do beside their kernels; null: no more. It must stay until then. */
void fettle_rt_trace(FettleContext* context, const FettleTracer* tracer);

/* One sentence on what went wrong in the context's last call; "" if nothing did. For null: in the last creation that
 * failed. */
const char* fettle_rt_error(const FettleContext* context);
