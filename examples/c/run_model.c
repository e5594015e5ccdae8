/* Runs a compiled model once. Each argument is a file of raw bytes for one input, in the model's order; the outputs'
 * raw bytes go to standard output. cc -I FOLDER_OF_model.h run_model.c model.so -Wl,-rpath,'$ORIGIN' -o run_model &&
 * ./run_model x.raw > y.raw */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

int main(int argc, char** argv) {
  const FettleModelInfo* info = fettle_model_info();
  if (argc != info->n_inputs + 1) return fprintf(stderr, "expected %d files\n", info->n_inputs), 2;
  void* buffers[256];
  for (int i = 0; i < info->n_inputs + info->n_outputs; ++i) {
    const FettleTensor* tensor = i < info->n_inputs ? &info->inputs[i] : &info->outputs[i - info->n_inputs];
    size_t bytes = (size_t)fettle_tensor_bytes(tensor);
    buffers[i] = calloc(bytes + 1, 1);
    FILE* file = i < info->n_inputs ? fopen(argv[i + 1], "rb") : NULL;
    if (i < info->n_inputs && (!file || fread(buffers[i], 1, bytes, file) != bytes))
      return fprintf(stderr, "cannot read %zu bytes for '%s' from %s\n", bytes, tensor->name, argv[i + 1]), 1;
  }
  FettleModel* model = fettle_model_create(0);
  if (!model || fettle_model_run(model, (const void* const*)buffers, buffers + info->n_inputs) != FETTLE_OK)
    return fprintf(stderr, "%s\n", fettle_model_error(model)), 1;
  for (int i = 0; i < info->n_outputs; ++i)
    fwrite(buffers[info->n_inputs + i], 1, (size_t)fettle_tensor_bytes(&info->outputs[i]), stdout);
  fettle_model_destroy(model);
  return 0;
}
