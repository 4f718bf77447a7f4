// How much of this thread's stack is left, for code that recurses over what strangers send.
#pragma once

namespace guiderail {

// Is so little left that nothing may be called any more? Never on stacks that the system did not make.
bool stack_is_low();

}  // namespace guiderail
