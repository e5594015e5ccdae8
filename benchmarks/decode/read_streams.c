/* How fast memory is read: the least seconds of ROUNDS reads of all bytes, by so many threads, each of which reads its
 * share in 1 to 16 streams at once, whichever is fastest. Prints the seconds.
 *   cc -O3 -march=native -pthread read_streams.c -o read_streams && ./read_streams BYTES THREADS ROUNDS */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { kMostThreads = 256, kWord = 8, kLine = 64 };

typedef struct {
  const uint64_t* begin;
  size_t words;
  int streams;
  uint64_t sum;
} Share;

static uint64_t sum_of_streams(const uint64_t* p, size_t words, int streams) {
  const size_t each = words / (size_t)streams / (kLine / kWord) * (kLine / kWord);
  uint64_t sums[kLine / kWord] = {0};
  for (size_t i = 0; i < each; i += kLine / kWord)
    for (int s = 0; s < streams; ++s)
      for (size_t w = 0; w < kLine / kWord; ++w) sums[w] ^= p[(size_t)s * each + i + w];
  for (size_t w = 1; w < kLine / kWord; ++w) sums[0] ^= sums[w];
  return sums[0];
}

static void* read_share(void* given) {
  Share* share = given;
  share->sum = sum_of_streams(share->begin, share->words, share->streams);
  return NULL;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 4) return fputs("read_streams BYTES THREADS ROUNDS\n", stderr), 2;
  const size_t bytes = strtoull(argv[1], NULL, 10);
  const int threads = atoi(argv[2]), rounds = atoi(argv[3]);
  if (threads < 1 || threads > kMostThreads || bytes < (1 << 20)) return fputs("out of range\n", stderr), 2;
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fputs("no memory\n", stderr), 1;
  memset(memory, 1, bytes);
  double best = 1e9;
  uint64_t all = 0;
  for (int round = 0; round < rounds; ++round)
    for (int streams = 1; streams <= 16; streams *= 2) {
      Share shares[kMostThreads];
      pthread_t others[kMostThreads];
      const size_t words = bytes / kWord / (size_t)threads / (kLine / kWord) * (kLine / kWord);
      const double begin = now();
      for (int t = 0; t < threads; ++t) {
        shares[t] = (Share){(const uint64_t*)memory + (size_t)t * words, words, streams, 0};
        if (t > 0 && pthread_create(&others[t], NULL, read_share, &shares[t])) return 1;
      }
      read_share(&shares[0]);
      for (int t = 1; t < threads; ++t) pthread_join(others[t], NULL);
      const double took = now() - begin;
      for (int t = 0; t < threads; ++t) all ^= shares[t].sum;
      if (took < best) best = took;
    }
  printf("%.9f\n", best);
  return all == 42;
}
