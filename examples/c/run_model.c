/* Runs a compiled model once. Each argument is one input, in the model's order: a file of raw bytes, and behind an @ its
 * extents where the model leaves some open. The outputs' raw bytes go to standard output, strings as
 * lines.
 *   cc -I FOLDER_OF_model.h run_model.c model.so -Wl,-rpath,'$ORIGIN' -o run_model
 *   ./run_model x.raw > y.raw        ./run_model x.raw@3,224,224 > y.raw */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* Reads an input as the argument says. 0: it cannot be read. */
static int read_input(FettleTensor* tensor, char* argument) {
  if (tensor->dtype == FETTLE_STRING)
    return fprintf(stderr, "'%s' is of strings, which have no raw bytes\n", tensor->name), 0;
  char* extents = strrchr(argument, '@');
  if (extents) {
    int64_t* shape = calloc((size_t)tensor->rank + 1, sizeof *shape);
    *extents++ = 0;
    for (int32_t d = 0; d < tensor->rank && *extents; ++d, extents += *extents == ',')
      shape[d] = strtol(extents, &extents, 10);
    tensor->shape = shape;
  }
  const int64_t bytes = fettle_tensor_bytes(tensor);
  if (bytes < 0) return fprintf(stderr, "give the extents of '%s': %s@3,224,224\n", tensor->name, argument), 0;
  tensor->data = malloc((size_t)bytes + 1);
  FILE* file = fopen(argument, "rb");
  if (file && fread(tensor->data, 1, (size_t)bytes, file) == (size_t)bytes) return fclose(file), 1;
  return fprintf(stderr, "cannot read %ld bytes for '%s' from %s\n", (long)bytes, tensor->name, argument), 0;
}

/* Raw bytes; of strings, one a line. */
static void write_output(const FettleTensor* tensor) {
  const int64_t bytes = fettle_tensor_bytes(tensor);
  if (tensor->dtype != FETTLE_STRING) {
    fwrite(tensor->data, 1, (size_t)bytes, stdout);
    return;
  }
  const FettleString* strings = tensor->data;
  for (int64_t i = 0; i < bytes / (int64_t)sizeof *strings; ++i) {
    fwrite(strings[i].data, 1, (size_t)strings[i].bytes, stdout);
    putchar('\n');
  }
}

int main(int argc, char** argv) {
  const FettleModelInfo* info = fettle_model_info();
  if (argc != info->n_inputs + 1) return fprintf(stderr, "expected %d files\n", info->n_inputs), 2;
  FettleTensor inputs[256], outputs[256];
  for (int i = 0; i < info->n_inputs; ++i) {
    inputs[i] = info->inputs[i];
    if (!read_input(&inputs[i], argv[i + 1])) return 1;
  }
  for (int i = 0; i < info->n_outputs; ++i)
    outputs[i] = info->outputs[i]; /* no data: memory of the context's is fine */

  FettleModel* model = fettle_model_open(FETTLE_ABI_VERSION, NULL);
  FettleContext* context = fettle_model_create_context(model);
  if (!context || fettle_model_run(context, inputs, outputs) != FETTLE_OK)
    return fprintf(stderr, "%s\n", fettle_model_error(context)), 1;
  for (int i = 0; i < info->n_outputs; ++i) write_output(&outputs[i]);
  fettle_model_destroy_context(context);
  fettle_model_close(model);
  return 0;
}
