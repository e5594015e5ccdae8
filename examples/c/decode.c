/* A decoder that continues a text: a first call reads the prompt, then each call reads one row and remembers what came
 * before. The model has one input that is no state, f32 [1, rows, width], and one such output of the same shape; its
 * cache is declared when it is compiled:
 *   fettle compile decoder.onnx -o model.so --range P=0..1024 --state past=present
 *   cc -I FOLDER_OF_model.h decode.c model.so -Wl,-rpath,'$ORIGIN' -o decode
 *   ./decode WIDTH STEPS < prompt.raw > continuation.raw
 * Each step's input is the last row of the output before, where a language model would look up the likeliest token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

/* The input or output that is no state: the caller gives it, or takes it. */
static int own_tensor(const FettleModelInfo* info, int is_output) {
  const int count = is_output ? info->n_outputs : info->n_inputs;
  for (int i = 0; i < count; ++i) {
    int is_state = 0;
    for (int s = 0; s < info->n_states; ++s)
      is_state |= (is_output ? info->states[s].output : info->states[s].input) == i;
    if (!is_state) return i;
  }
  return -1;
}

/* All of standard input; *count is how many numbers there are. */
static float* read_numbers(size_t* count) {
  size_t room = 1024;
  float* numbers = malloc(room * sizeof *numbers);
  for (*count = 0; numbers;) {
    *count += fread(numbers + *count, sizeof *numbers, room - *count, stdin);
    if (*count < room) break;
    numbers = realloc(numbers, (room *= 2) * sizeof *numbers);
  }
  return numbers;
}

int main(int argc, char** argv) {
  const FettleModelInfo* info = fettle_model_info();
  const int x = own_tensor(info, 0), y = own_tensor(info, 1);
  const int64_t width = argc == 3 ? strtol(argv[1], NULL, 10) : 0;
  if (width <= 0 || x < 0 || y < 0 || info->n_inputs > 256 || info->n_outputs > 256)
    return fprintf(stderr, "usage: decode WIDTH STEPS < prompt.raw > continuation.raw\n"), 2;
  size_t count = 0;
  float* rows = read_numbers(&count);
  if (!rows || count == 0 || count % (size_t)width != 0) return fprintf(stderr, "the prompt is no whole rows\n"), 2;

  FettleModel* model = fettle_model_open(FETTLE_ABI_VERSION, NULL);
  FettleContext* context = fettle_model_create_context(model);
  if (!context) return fprintf(stderr, "%s\n", fettle_model_error(NULL)), 1;
  FettleTensor inputs[256], outputs[256];
  for (int i = 0; i < info->n_inputs; ++i)
    inputs[i] = info->inputs[i]; /* states have no data: the context keeps them */
  int64_t shape[3] = {1, (int64_t)count / width, width};
  inputs[x].shape = shape;
  inputs[x].data = rows;
  for (long step = strtol(argv[2], NULL, 10); step > 0; --step) {
    for (int i = 0; i < info->n_outputs; ++i) outputs[i] = info->outputs[i];
    if (fettle_model_run(context, inputs, outputs) != FETTLE_OK)
      return fprintf(stderr, "%s\n", fettle_model_error(context)), 1;
    const float* last = (const float*)outputs[y].data + (shape[1] - 1) * width;
    memmove(rows, last, (size_t)width * sizeof *rows);
    fwrite(rows, sizeof *rows, (size_t)width, stdout);
    shape[1] = 1;
  }
  fettle_model_destroy_context(context);
  fettle_model_close(model);
  free(rows);
  return 0;
}
