package sparkcohort;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * One column of Arrow's format at addresses outside the heap; nothing is copied before Spark asks for it.
 *
 * <p>Fixed-width data holds {@code length} values ({@link ArrowStream} has checked it).  Offsets are checked at each use: what they
 * point to must lie in {@code dataLength} bytes, or among the values of the child.
 */
final class ArrowColumn extends ColumnVector {
  private final long validity;
  private final int nulls;
  private final long offsets;
  private final long data;
  private final long dataLength;
  private final ArrowColumn[] children;

  /** {@code dataLength}: bytes at {@code data}; of a list or map the values of its child. */
  ArrowColumn(DataType type, int nulls, long validity, long offsets, long data, long dataLength, ArrowColumn... children) {
    super(type);
    this.nulls = nulls;
    this.validity = validity;
    this.offsets = offsets;
    this.data = data;
    this.dataLength = dataLength;
    this.children = children;
  }

  @Override
  public void close() {
    // The memory is its connection's.
  }

  @Override
  public boolean hasNull() {
    return nulls > 0;
  }

  @Override
  public int numNulls() {
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls > 0 && !bit(validity, row);
  }

  @Override
  public boolean getBoolean(int row) {
    return bit(data, row);
  }

  @Override
  public byte getByte(int row) {
    return Platform.getByte(null, data + row);
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, data + 2L * row);
  }

  @Override
  public int getInt(int row) {
    return Platform.getInt(null, data + 4L * row);
  }

  @Override
  public long getLong(int row) {
    return Platform.getLong(null, data + 8L * row);
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, data + 4L * row);
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, data + 8L * row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) {
      return null;
    }
    long low = Platform.getLong(null, data + 16L * row);
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      return Decimal.createUnsafe(low, precision, scale);
    }
    BigInteger high = BigInteger.valueOf(Platform.getLong(null, data + 16L * row + 8)).shiftLeft(64);
    BigInteger unscaled = high.or(new BigInteger(Long.toUnsignedString(low)));
    return Decimal.apply(new BigDecimal(unscaled, scale), precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = start(row);
    return UTF8String.fromAddress(null, data + start, length(row, start));
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = start(row);
    byte[] bytes = new byte[length(row, start)];
    Platform.copyMemory(null, data + start, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
    return bytes;
  }

  @Override
  public ColumnarArray getArray(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = start(row);
    return new ColumnarArray(children[0], start, length(row, start));
  }

  @Override
  public ColumnarMap getMap(int row) {
    if (isNullAt(row)) {
      return null;
    }
    int start = start(row);
    return new ColumnarMap(children[0], children[1], start, length(row, start));
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return children[ordinal];
  }

  private int start(int row) {
    return Platform.getInt(null, offsets + 4L * row);
  }

  /** The length of a row's value, which must lie inside of the data. */
  private int length(int row, int start) {
    int end = Platform.getInt(null, offsets + 4L * row + 4);
    if (start < 0 || end < start || end > dataLength) {
      throw new IndexOutOfBoundsException("the agent's batch is malformed: a value outside of its buffer");
    }
    return end - start;
  }

  private static boolean bit(long bits, int row) {
    return (Platform.getByte(null, bits + (row >> 3)) & (1 << (row & 7))) != 0;
  }
}
