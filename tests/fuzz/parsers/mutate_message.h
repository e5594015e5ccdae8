#pragma once
// Random changes of a protobuf message, by its description.

#include <google/protobuf/message.h>

#include <cstdint>

namespace fettle::fuzz {

/// Makes one to four changes: numbers become ones that often go wrong, texts those of elsewhere in the message; parts
/// are added, dropped, doubled and swapped.
void mutate(google::protobuf::Message& message, uint64_t seed);

}  // namespace fettle::fuzz
