/* The header without its functions, twice: it compiles without a warning. */
#include "../onnxz.h"
#include "../onnxz.h"

int main(void) { return (int)sizeof(onnxz_error) == 0; }
