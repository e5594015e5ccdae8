#pragma once
// The options of commands that talk to a tracker, or are one.

#include "cli/command.h"
#include "remote/credentials.h"

namespace fettle::cli {

/// --token-file, --tls-cert, --tls-key, --tls-ca
void add_credentials(App* app, CredentialFiles* files);

}  // namespace fettle::cli
