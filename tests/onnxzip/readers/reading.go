// Prints what Go's archive/zip reads of each archive that is named: a line with its entries and their bytes, or "!".
package main

import (
	"archive/zip"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
)

func read(path string) (string, error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return "", err
	}
	defer archive.Close()
	parts := []string{}
	for _, entry := range archive.File {
		stream, err := entry.Open()
		if err != nil {
			return "", err
		}
		data, err := io.ReadAll(stream)
		if err != nil {
			return "", err
		}
		parts = append(parts, hex.EncodeToString([]byte(entry.Name))+"="+hex.EncodeToString(data))
	}
	return strings.Join(parts, ","), nil
}

func main() {
	for _, path := range os.Args[1:] {
		if text, err := read(path); err != nil {
			fmt.Println("!")
		} else {
			fmt.Println(text)
		}
	}
}
