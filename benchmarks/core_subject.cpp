#include "core_subject.h"

namespace fettle::bench {

CoreSubject fettle_subject() {
  CoreSubject subject;
  return subject;
}

}  // namespace fettle::bench
