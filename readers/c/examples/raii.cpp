// A C++ class around the reader: it closes the archive when it ends, and an error is an exception.
//
//     c++ -std=c++11 -o raii raii.cpp && ./raii model.onnxz
#define ONNXZ_IMPLEMENTATION
#include "../onnxz.h"

#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>

namespace onnxz {

class Error : public std::runtime_error {
  public:
    explicit Error(const onnxz_error &error)
        : std::runtime_error(error.message), requirement(error.requirement) {}
    const std::string requirement; // empty if the system refused
};

class Archive {
  public:
    explicit Archive(const std::string &path, onnxz_class reader = ONNXZ_STRICT, const char *model = nullptr) {
        onnxz_error error;
        archive_.reset(onnxz_open(path.c_str(), reader, model, &error));
        if (!archive_) throw Error(error);
    }

    template <typename Visit> void each_entry(Visit visit) const {
        for (std::size_t i = 0; i < onnxz_entry_count(archive_.get()); i++) visit(*onnxz_entry_at(archive_.get(), i));
    }

    template <typename Visit> void each_tensor(Visit visit) const {
        for (std::size_t i = 0; i < onnxz_tensor_count(archive_.get()); i++) visit(*onnxz_tensor_at(archive_.get(), i));
    }

    // What these return lives as long as the archive.
    const onnxz_entry *find(const std::string &name) const { return onnxz_find(archive_.get(), name.c_str()); }
    const onnxz_entry *graph(const char *model = nullptr) const { return onnxz_graph(archive_.get(), model); }

  private:
    struct Close {
        void operator()(onnxz_archive *archive) const { onnxz_close(archive); }
    };
    std::unique_ptr<onnxz_archive, Close> archive_; // so an Archive can be moved, and not copied
};

} // namespace onnxz

int main(int count, char **arguments) {
    if (count != 2) {
        std::cerr << "usage: raii ARCHIVE\n";
        return 2;
    }
    try {
        const onnxz::Archive archive(arguments[1]);
        archive.each_entry([](const onnxz_entry &entry) { std::cout << entry.name << ": " << entry.nbytes << " bytes\n"; });
        std::size_t nbytes = 0;
        archive.each_tensor([&](const onnxz_tensor &tensor) { nbytes += tensor.entry->nbytes; });
        std::cout << "external tensors: " << nbytes << " bytes\n";
    } catch (const onnxz::Error &error) {
        std::cerr << arguments[1] << ": " << error.what() << " (" << error.requirement << ")\n";
        return 1;
    }
}
