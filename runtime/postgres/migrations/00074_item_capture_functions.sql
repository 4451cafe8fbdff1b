-- What the indexes and the statements about captures share.

-- +goose Up
-- Whether files of such a type may say how they were made. A conversion has the type of a picture, too.
CREATE FUNCTION item_may_say_capture(objects jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT coalesce(item_file_type(objects) ~ '^(image/(jpeg|png|apng|vnd\.mozilla\.apng|webp|tiff|hei[cf]|avif)|video/(mp4|quicktime|3gpp|x-m4v)|audio/(mp4|x-m4a|mpeg))', false)$$;

-- The time of the order by capture, in milliseconds: that of the upload, which the id has, for an item of which no other is known.
CREATE FUNCTION item_capture_order(capture jsonb, id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT coalesce((capture ->> 'ms')::bigint, ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint)$$;

CREATE FUNCTION item_cell(capture jsonb) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT (capture ->> 'cell')::bigint$$;

-- Metres along a great circle. The radius is that of package capture.
CREATE FUNCTION item_distance(capture jsonb, latitude double precision, longitude double precision) RETURNS double precision LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$SELECT 2 * 6371008.8 * asin(sqrt(least(1, sin(radians((capture -> 'location' ->> 'lat')::float8 - latitude) / 2) ^ 2
    + cos(radians(latitude)) * cos(radians((capture -> 'location' ->> 'lat')::float8)) * sin(radians((capture -> 'location' ->> 'lon')::float8 - longitude) / 2) ^ 2)))$$;
