#include "mutate_message.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "base/random.h"

namespace fettle::fuzz {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

/// What the message is made of: its messages, and its texts.
struct Parts {
  std::vector<Message*> messages;
  std::vector<std::string> texts;

  void add(Message& message) {
    messages.push_back(&message);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> set;
    reflection.ListFields(message, &set);
    for (const FieldDescriptor* field : set) {
      const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
      for (int i = 0; i < count; ++i) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
          add(field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, i)
                                   : *reflection.MutableMessage(&message, field));
        else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && texts.size() < 1000)
          texts.push_back(field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                               : reflection.GetString(message, field));
      }
    }
  }
};

class Mutator {
 public:
  Mutator(Parts parts, uint64_t seed) : parts_(std::move(parts)), random_{seed} {}

  void change() {
    Message& message = *parts_.messages[below(parts_.messages.size())];
    const auto* type = message.GetDescriptor();
    if (type->field_count() == 0) return;
    const FieldDescriptor* field = type->field(static_cast<int>(below(static_cast<size_t>(type->field_count()))));
    // Mostly what is there already.
    std::vector<const FieldDescriptor*> set;
    message.GetReflection()->ListFields(message, &set);
    if (!set.empty() && below(4) > 0) field = set[below(set.size())];
    if (field->is_repeated())
      change_list(message, field);
    else if (below(6) == 0)
      message.GetReflection()->ClearField(&message, field);
    else
      put(message, field, -1);
  }

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_.below(n)); }

  int64_t number(int64_t now) {
    static constexpr int64_t kOften[] = {
        0, 1, -1, 2, 3, 7, 64, 65, 255, 1 << 16, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t{1} << 40};
    const size_t choice = below(std::size(kOften) + 6);
    if (choice < std::size(kOften)) return kOften[choice];
    return static_cast<int64_t>(static_cast<uint64_t>(now) + below(9) - 4);
  }

  std::string text(std::string now) {
    if (below(3) > 0 && !parts_.texts.empty()) return parts_.texts[below(parts_.texts.size())];
    if (now.empty() || below(4) == 0) return std::string(below(5), static_cast<char>(below(256)));
    now[below(now.size())] = static_cast<char>(below(256));
    return now;
  }

  // Sets the field, or with i >= 0 an element of it.
  void put(Message& m, const FieldDescriptor* f, int i) {
    const Reflection& r = *m.GetReflection();
    const bool in_list = i >= 0;
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        if (in_list)
          r.SetRepeatedInt32(&m, f, i, static_cast<int32_t>(number(r.GetRepeatedInt32(m, f, i))));
        else
          r.SetInt32(&m, f, static_cast<int32_t>(number(r.GetInt32(m, f))));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        if (in_list)
          r.SetRepeatedInt64(&m, f, i, number(r.GetRepeatedInt64(m, f, i)));
        else
          r.SetInt64(&m, f, number(r.GetInt64(m, f)));
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        if (in_list)
          r.SetRepeatedUInt64(&m, f, i, static_cast<uint64_t>(number(1)));
        else
          r.SetUInt64(&m, f, static_cast<uint64_t>(number(1)));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        if (in_list)
          r.SetRepeatedFloat(&m, f, i, real());
        else
          r.SetFloat(&m, f, real());
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        if (in_list)
          r.SetRepeatedDouble(&m, f, i, real());
        else
          r.SetDouble(&m, f, real());
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        if (in_list)
          r.SetRepeatedString(&m, f, i, text(r.GetRepeatedString(m, f, i)));
        else
          r.SetString(&m, f, text(r.GetString(m, f)));
        break;
      case FieldDescriptor::CPPTYPE_ENUM: {
        const EnumDescriptor* values = f->enum_type();
        const auto* value = values->value(static_cast<int>(below(static_cast<size_t>(values->value_count()))));
        if (in_list)
          r.SetRepeatedEnum(&m, f, i, value);
        else
          r.SetEnum(&m, f, value);
        break;
      }
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (!in_list) r.MutableMessage(&m, f);
        break;
      default:
        break;
    }
  }

  float real() {
    static constexpr float kOften[] = {
        0, -0.0f, 1, -1, 0.5f, 1e30f, 1e-40f, __builtin_inff(), -__builtin_inff(), __builtin_nanf("")};
    return kOften[below(std::size(kOften))];
  }

  void add(Message& m, const FieldDescriptor* f, int like) {
    const Reflection& r = *m.GetReflection();
    switch (f->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return r.AddInt32(&m, f, static_cast<int32_t>(number(1)));
      case FieldDescriptor::CPPTYPE_INT64:
        return r.AddInt64(&m, f, number(1));
      case FieldDescriptor::CPPTYPE_UINT64:
        return r.AddUInt64(&m, f, static_cast<uint64_t>(number(1)));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return r.AddFloat(&m, f, real());
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return r.AddDouble(&m, f, real());
      case FieldDescriptor::CPPTYPE_STRING:
        return r.AddString(&m, f, text(""));
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message* added = r.AddMessage(&m, f);
        if (like >= 0) added->CopyFrom(r.GetRepeatedMessage(m, f, like));
        return;
      }
      default:
        return;
    }
  }

  void change_list(Message& m, const FieldDescriptor* f) {
    const Reflection& r = *m.GetReflection();
    const int count = r.FieldSize(m, f);
    const auto any = [&] { return count == 0 ? -1 : static_cast<int>(below(static_cast<size_t>(count))); };
    switch (count == 0 ? 0 : below(5)) {
      case 0:
        return add(m, f, any());
      case 1:
        r.SwapElements(&m, f, any(), count - 1);
        return r.RemoveLast(&m, f);
      case 2:
        return r.SwapElements(&m, f, any(), any());
      default:
        return put(m, f, any());
    }
  }

  Parts parts_;
  RandomStream random_;
};

}  // namespace

void mutate(Message& message, uint64_t seed) {
  RandomStream random{seed};
  for (uint64_t i = 0; i <= random.below(4); ++i) {
    Parts parts;
    parts.add(message);
    Mutator(std::move(parts), random.next()).change();
  }
}

}  // namespace fettle::fuzz
