import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

/** Prints what java.util.zip reads of each archive that is named: a line with its entries and their bytes, or "!". */
public class Reading {
    static String read(String path) throws Exception {
        List<String> parts = new ArrayList<>();
        try (ZipFile archive = new ZipFile(path)) {
            for (ZipEntry entry : Collections.list(archive.entries())) {
                try (InputStream stream = archive.getInputStream(entry)) {
                    HexFormat hex = HexFormat.of();
                    parts.add(hex.formatHex(entry.getName().getBytes("UTF-8")) + "=" + hex.formatHex(stream.readAllBytes()));
                }
            }
        }
        return String.join(",", parts);
    }

    public static void main(String[] paths) {
        for (String path : paths) {
            String text;
            try {
                text = read(path);
            } catch (Exception error) {
                text = "!";
            }
            System.out.println(text);
        }
    }
}
